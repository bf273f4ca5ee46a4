// Prometheus' HTTP API, asked as Grafana asks it.
import { settings } from './settings.js';

async function ask(path, parameters) {
  const answer = await fetch(`${settings.prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`);
  const { status, error, data } = await answer.json();
  if (status !== 'success') throw new Error(error);
  return data;
}

const seconds = (settings.to - settings.from) / 1000;
const NICE = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600];

// Grafana's step: as many points as the panel has pixels, but never more often than Prometheus scrapes.
export function stepFor(width) {
  const wanted = Math.max(settings.scrapeSeconds, seconds / width);
  return NICE.find((step) => step >= wanted) ?? NICE.at(-1);
}

export const builtIn = (step) => ({
  __interval: `${step}s`,
  __rate_interval: `${Math.max(step + settings.scrapeSeconds, 4 * settings.scrapeSeconds)}s`,
  __range: `${Math.round(seconds)}s`,
});

export const instant = async (query) => (await ask('query', { query, time: settings.to / 1000 })).result;

export async function range(query, step) {
  const align = (time) => Math.floor(time / 1000 / step) * step;
  return (await ask('query_range', { query, start: align(settings.from), end: align(settings.to), step }))
    .result;
}

export async function labelValues(selector, label) {
  const when = { start: settings.from / 1000, end: settings.to / 1000 };
  const values = await ask(`label/${label}/values`, { 'match[]': selector, ...when });
  return values.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}
