// Live updates: requests the content of the page each second and morphs the document to it, which keeps focus,
// selection, scroll position and opened parts. The address holds all state.
"use strict";

const INTERVAL = 1000; // milliseconds
const MAX_INTERVAL = 30000;
const PAUSE_FACTOR = 4; // pause after a response, in response times: large fleets are polled less often

const content = document.getElementById("content");
const live = document.getElementById("live");
const news = document.getElementById("news");

let failures = 0;
let retryAfter = 0; // milliseconds, by the last response
let timer = 0;
let turn = null; // AbortController of the request in flight

// --- Morphing the document.
const keyOf = (node) => node.id || node.dataset?.key || "";

const isUserState = (node, name) => name === "open" && node.nodeName === "DETAILS"; // the user opened or closed it

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isUserState(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !isUserState(old, name)) old.setAttribute(name, value);
  }
  if (old.nodeName === "INPUT" && old !== document.activeElement) old.value = fresh.value;
}

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
    return;
  }
  morphAttributes(old, fresh);
  const wanted = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
  for (const child of [...old.childNodes]) {
    if (keyOf(child) && !wanted.has(keyOf(child))) child.remove();
  }
  const keyed = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    while (keyed.has(key) && place && !keyOf(place)) place = remove(place); // moving a node would lose its focus
    const isAlike = place && place.nodeName === next.nodeName && !keyOf(place);
    const match = key ? keyed.get(key) : isAlike ? place : null;
    if (!match) old.insertBefore(next, place);
    else if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    if (match) morph(match, next);
  }
  while (place) place = remove(place);
}

// Morphs the content. A row that moves keeps the focus and, at the center of the screen, its position.
function show(fresh) {
  const focused = document.activeElement;
  const central = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("tbody.open");
  const [place, top] = [central?.previousElementSibling, central?.getBoundingClientRect().top];
  morph(content, fresh);
  if (document.activeElement === document.body && focused.isConnected) focused.focus({ preventScroll: true });
  const hasMoved = central?.isConnected && central.previousElementSibling !== place;
  if (hasMoved) scrollBy({ top: central.getBoundingClientRect().top - top, behavior: "instant" });
}

function remove(node) {
  const after = node.nextSibling;
  node.remove();
  return after;
}

// --- Requests.

function setStatus(state, text) {
  if (live.textContent === text) return; // screen readers would repeat it
  live.dataset.state = state;
  live.textContent = text;
}

const verdicts = () =>
  new Map([...content.querySelectorAll("tbody[data-verdict]")].map((row) => [row.id, row.dataset.verdict]));

function announce(before) {
  const rows = [...content.querySelectorAll("tbody[data-verdict]")];
  const changed = rows.filter((row) => before.has(row.id) && before.get(row.id) !== row.dataset.verdict);
  if (changed.length) {
    news.textContent = changed.slice(0, 3).map((row) => `${row.dataset.name}. Verdict: ${row.dataset.verdictWord}.`).join(" ");
  }
}

async function fetchContent(signal) {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(10000)]);
  const answer = await fetch(`./fragment${location.search}`, { signal: limit, cache: "no-store" });
  retryAfter = answer.ok ? 0 : 1000 * Math.min(Number(answer.headers.get("Retry-After")) || 0, 3600);
  if (!answer.ok) {
    const isPlain = answer.headers.get("Content-Type")?.startsWith("text/plain"); // a proxy may send an HTML page
    const reason = isPlain ? await answer.text() : answer.statusText;
    throw new Error(`it answered ${answer.status}: ${reason.trim().split("\n")[0].slice(0, 120)}`);
  }
  const fresh = content.cloneNode(false);
  fresh.append(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
  return fresh;
}

async function refresh() {
  clearTimeout(timer);
  turn?.abort();
  const mine = (turn = new AbortController());
  const begin = performance.now();
  retryAfter = 0;
  try {
    const fresh = await fetchContent(mine.signal);
    const before = verdicts();
    show(fresh);
    announce(before);
    document.title = document.title.replace(/^.*(?= · )/, () => content.querySelector(".summary").dataset.title);
    failures = 0;
    setStatus("live", "Live");
  } catch (error) {
    if (mine.signal.aborted) return;
    failures += 1;
    const why = error.message.startsWith("it answered") ? error.message : "the exporter does not answer";
    setStatus("stale", `Stale since ${content.querySelector(".asof time").textContent}: ${why}`);
  }
  plan(performance.now() - begin);
}

function plan(responseTime = 0) {
  clearTimeout(timer);
  if (document.hidden) setStatus("paused", "Paused");
  const wait = Math.min(INTERVAL * 2 ** failures, MAX_INTERVAL);
  if (!document.hidden) timer = setTimeout(refresh, Math.max(wait, PAUSE_FACTOR * responseTime, retryAfter));
}

document.addEventListener("visibilitychange", () => (document.hidden ? plan() : refresh()));

// --- Navigation.

function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  refresh();
}

addEventListener("popstate", refresh);
document.addEventListener("click", (event) => {
  if (event.target.closest('a[href="#glossary"]')) document.getElementById("glossary").open = true;
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  const link = event.target.closest("a.opener, a.chip, a.sort") ?? openerOf(event.target);
  if (!link || !isPlain) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});

function openerOf(target) {
  const isFree = !target.closest("a, button") && getSelection().isCollapsed;
  return isFree ? target.closest("tr.engine")?.querySelector("a.opener") : null;
}

function filter(text) {
  const parameters = new URLSearchParams(location.search);
  parameters.delete("q");
  if (text) parameters.set("q", text);
  go(parameters.size ? `./?${parameters}` : "./", { replace: true });
}

let typing = 0;
document.addEventListener("input", (event) => {
  if (event.target.id !== "filter") return;
  clearTimeout(typing);
  typing = setTimeout(() => filter(event.target.value.trim()), 120);
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  filter(document.getElementById("filter").value.trim());
});

// --- Copying a setting. Without https browsers have no clipboard: then the text stays selected.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const source = button.parentElement.querySelector("code");
  getSelection().selectAllChildren(source);
  let result = "Copied";
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    result = "Selected: copy it by keyboard";
  }
  button.textContent = news.textContent = result;
});

// --- Keys: / focuses the filter, arrows move between rows, Escape closes.

const STEPS = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };
const close = (opener) => (opener?.focus(), opener?.click());

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  const target = event.target;
  const isTyping = target.matches("input");
  if (event.key === "Escape" && isTyping) filter((target.value = ""));
  else if (event.key === "Escape") close(target.closest("tbody.open")?.querySelector("a.opener"));
  else if (event.key === "/" && !isTyping) document.getElementById("filter")?.focus();
  else if (event.key in STEPS && target.matches("a.opener")) step(target, STEPS[event.key]);
  else if (event.key === "ArrowDown" && isTyping) step(null, 1);
  else return;
  event.preventDefault();
});

function step(from, by) {
  const openers = [...content.querySelectorAll("a.opener")];
  openers[openers.indexOf(from) + by]?.focus();
}

// On a narrow screen the long sections below the engines begin folded.
if (matchMedia("(max-width: 40rem)").matches) {
  for (const section of content.querySelectorAll("details.fold")) section.open = false;
}
setStatus("live", "Live");
plan();
