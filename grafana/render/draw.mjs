// Takes a picture of each dashboard: node draw.mjs PROMETHEUS OUT FROM_MS TO_MS [JSON of variables by uid]
import { readFile, readdir, mkdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import puppeteer from 'puppeteer-core';

const [prometheus, out, from, to, chosen = '{}'] = process.argv.slice(2);
const here = fileURLToPath(new URL('.', import.meta.url));
const dashboards = join(here, '..', 'dashboards');
const WIDTH = 1520;
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.html': 'text/html' };
const PAGE = (
  settings,
) => `<!doctype html><meta charset="utf-8"><title>drawing</title><link rel="stylesheet" href="/out/app.css">
<style>body{margin:0;padding:0 8px;background:#111217;color:#ccccdc;font-family:Inter,sans-serif}svg text{font-family:Inter,sans-serif}</style>
<div id="root"></div><script>window.__grafana_public_path__='/public/';window.settings=${JSON.stringify(settings).replaceAll('<', '\\u003c')}</script>
<script src="/out/app.js"></script>`;

async function settingsOf(name) {
  const dashboard = JSON.parse(await readFile(join(dashboards, name)));
  const variables = JSON.parse(chosen)[dashboard.uid] ?? {};
  return { dashboard, prometheus, variables, width: WIDTH, from: +from, to: +to, scrapeSeconds: 5 };
}

// Our own files, and what Grafana's server would give: its icons and its font.
const PLACES = [
  [/^\/public\/build\//, 'node_modules/@grafana/ui/dist/public/'],
  [/^\/public\/fonts\/inter\/Inter-Regular/, 'node_modules/@fontsource/inter/files/inter-latin-400-normal'],
  [/^\/public\/fonts\/inter\/Inter-Medium/, 'node_modules/@fontsource/inter/files/inter-latin-500-normal'],
];
const fileOf = (path) =>
  join(
    here,
    PLACES.reduce((place, [from, to]) => place.replace(from, to), normalize(path)),
  );

const server = createServer(async ({ url }, response) => {
  const path = new URL(url, 'http://localhost').pathname;
  try {
    const body = path.endsWith('.json')
      ? PAGE(await settingsOf(path.slice(1)))
      : await readFile(fileOf(path));
    response.setHeader(
      'Content-Type',
      TYPES[path.endsWith('.json') ? '.html' : extname(path)] ?? 'application/octet-stream',
    );
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
});

async function draw(browser, name) {
  const page = await browser.newPage();
  page.on('pageerror', (error) => console.error(`${name}: ${error}`));
  await page.setViewport({ width: WIDTH + 16, height: 900, deviceScaleFactor: 1 });
  await page.goto(`http://127.0.0.1:${server.address().port}/${name}`);
  await page.waitForFunction('document.title === "done"', { timeout: 60_000 });
  // What is outside of the viewport may not be painted.
  const height = await page.evaluate('document.documentElement.scrollHeight');
  await page.setViewport({ width: WIDTH + 16, height, deviceScaleFactor: 1 });
  await new Promise((done) => setTimeout(done, 500));
  await page.screenshot({
    path: join(out, `dashboard-${name.replace('spec-decode-', '').replace('.json', '.png')}`),
  });
  const { problems, drawn } = await page.evaluate('({problems: window.problems, drawn: window.drawn})');
  const empty = drawn.filter(({ rows }) => rows === 0).map(({ title }) => title);
  console.log(`${name}: ${drawn.length} panels, empty: ${empty.join(', ') || 'none'}`);
  problems.forEach((problem) => console.error(`${name}: ${problem}`));
  await page.close();
  return problems.length;
}

await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
await mkdir(out, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
});
let failed = 0;
for (const name of (await readdir(dashboards)).sort()) failed += await draw(browser, name);
await browser.close();
server.close();
process.exitCode = failed ? 1 : 0;
