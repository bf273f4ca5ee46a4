// Live updates: requests the content of the page each second and morphs the document to it, which keeps focus,
// selection, scroll position and opened parts. The address holds all state.
"use strict";

const INTERVAL = 1000; // milliseconds
const MAX_INTERVAL = 30000;
const PAUSE_FACTOR = 4; // pause after a response, in response times: large fleets are polled less often
const MAX_RETRY_AFTER = 3600000; // milliseconds
const FRAME_BUDGET = 6; // milliseconds of work between two frames

const content = document.getElementById("content");
const live = document.getElementById("live");
const news = document.getElementById("news");

let failures = 0;
let timer = 0;
let pending = null; // AbortController of the request in flight
let responseTime = 0; // milliseconds, of the last response
let retryAfter = 0; // milliseconds, by the last response

// --- Morphing the document.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "");
const isAlike = (left, right) => left.nodeName === right.nodeName && !keyOf(left) && !keyOf(right);
const frame = () => new Promise((done) => (document.hidden ? setTimeout(done) : requestAnimationFrame(done)));

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    const isUserState = name === "open" && old.nodeName === "DETAILS"; // the user opened it
    if (!fresh.hasAttribute(name) && !isUserState) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "INPUT" && old !== document.activeElement && old.value !== fresh.value) old.value = fresh.value;
}

function morph(old, fresh) {
  if (fresh.isMoved || old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
    return;
  }
  morphAttributes(old, fresh);
  for (const step of morphChildren(old, fresh)) step();
}

// Yields a step for each child: a long list is morphed over several frames.
function* morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  const keys = new Set(wanted.map(keyOf).filter(Boolean));
  const keyed = new Map();
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (key && !keys.has(key)) child.remove(); // first, so that the remaining nodes stay in place
    else if (key) keyed.set(key, child);
  }
  let place = old.firstChild;
  const drop = () => {
    const after = place.nextSibling;
    place.remove();
    place = after;
  };
  for (const next of wanted) {
    const key = keyOf(next);
    while (keyed.has(key) && place && !keyOf(place)) drop(); // moving a keyed node would lose its focus
    if (place && keyed.has(key) && place.nextSibling === keyed.get(key)) {
      old.append(place); // it moved down: moving only this node is cheaper
      place = keyed.get(key);
    }
    const match = key ? keyed.get(key) : place && isAlike(place, next) ? place : null;
    if (!match) old.insertBefore(next, place);
    else if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    if (match) yield () => morph(match, next);
  }
  while (place) drop();
}

// Morphs the document. A row that moves keeps the focus and, at the center of the screen, its scroll position.
async function show(fresh, turn) {
  const focused = document.activeElement;
  const central = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("tbody.open");
  const place = central?.previousElementSibling;
  const top = central?.getBoundingClientRect().top;
  await move(fresh, turn);
  if (document.activeElement === document.body && focused.isConnected) focused.focus({ preventScroll: true });
  if (!central?.isConnected || central.previousElementSibling === place) return;
  scrollBy(0, central.getBoundingClientRect().top - top);
}

async function move(fresh, turn) {
  const table = content.querySelector("table.fleet");
  const freshTable = fresh.querySelector("table.fleet");
  if (table && freshTable) {
    let since = performance.now();
    for (const step of morphChildren(table, freshTable)) {
      step();
      if (performance.now() - since < FRAME_BUDGET) continue;
      await frame();
      if (turn.signal.aborted) return;
      since = performance.now();
    }
    const moved = table.cloneNode(false);
    moved.isMoved = true;
    freshTable.replaceWith(moved);
  }
  morph(content, fresh);
}

// --- Requests.

function verdicts() {
  const rows = content.querySelectorAll("tbody[data-verdict]");
  return new Map([...rows].map((row) => [row.id, row.dataset.verdict]));
}

function announce(before) {
  const changed = [...content.querySelectorAll("tbody[data-verdict]")].filter(
    (row) => before.has(row.id) && before.get(row.id) !== row.dataset.verdict,
  );
  if (!changed.length) return;
  news.textContent = changed
    .slice(0, 3)
    .map((row) => `${row.dataset.name}. Verdict: ${row.dataset.verdictWord}.`)
    .join(" ");
}

function setStatus(state, text) {
  if (live.dataset.state === state && live.textContent === text) return; // screen readers would repeat it
  live.dataset.state = state;
  live.textContent = text;
}

class RejectedError extends Error {}

// Returns the first line of a plain-text response: a proxy may send an HTML page.
async function reason(answer) {
  const isPlain = answer.headers.get("Content-Type")?.startsWith("text/plain");
  const text = isPlain ? await answer.text() : answer.statusText;
  return text.trim().split("\n")[0].slice(0, 120);
}

async function fetchContent(turn) {
  const limit = AbortSignal.any([turn.signal, AbortSignal.timeout(10000)]);
  const answer = await fetch(`./fragment${location.search}`, { signal: limit, cache: "no-store" });
  retryAfter = answer.ok ? 0 : Math.min(1000 * (Number(answer.headers.get("Retry-After")) || 0), MAX_RETRY_AFTER);
  if (!answer.ok) throw new RejectedError(`it answered ${answer.status}: ${await reason(answer)}`);
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = content.cloneNode(false);
  fresh.append(...parsed.body.childNodes);
  return fresh;
}

async function refresh() {
  clearTimeout(timer);
  pending?.abort();
  const turn = (pending = new AbortController());
  try {
    const before = verdicts();
    const begin = performance.now();
    retryAfter = 0;
    const fresh = await fetchContent(turn);
    responseTime = performance.now() - begin;
    await show(fresh, turn);
    if (turn.signal.aborted) return;
    announce(before);
    failures = 0;
    setStatus("live", "Live");
  } catch (error) {
    if (turn.signal.aborted) return;
    failures += 1;
    const why = error instanceof RejectedError ? error.message : "the exporter does not answer";
    setStatus("stale", `Stale since ${content.querySelector(".asof time").textContent}: ${why}`);
  }
  plan();
}

function plan() {
  clearTimeout(timer);
  if (document.hidden) setStatus("paused", "Paused");
  else timer = setTimeout(refresh, Math.max(Math.min(INTERVAL * 2 ** failures, MAX_INTERVAL), PAUSE_FACTOR * responseTime, retryAfter));
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
  const link = event.target.closest("a.opener, a.chip, tr.engine");
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !isPlain || event.defaultPrevented) return;
  const opener = link.matches("tr") ? link.querySelector("a.opener") : link;
  if (link.matches("tr") && (event.target.closest("a") || !getSelection().isCollapsed)) return;
  event.preventDefault();
  go(opener.getAttribute("href"));
});

function filter(text) {
  const parameters = new URLSearchParams(location.search);
  if (text) parameters.set("q", text);
  else parameters.delete("q");
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
  clearTimeout(typing);
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

function step(by) {
  const openers = [...content.querySelectorAll("a.opener")];
  const here = openers.indexOf(document.activeElement);
  const next = openers[here < 0 ? (by > 0 ? 0 : openers.length - 1) : here + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function closeRow(opener) {
  if (!opener) return;
  opener.focus();
  go(opener.getAttribute("href"));
}

function escape(target) {
  if (target.id === "filter" && target.value) {
    target.value = "";
    filter("");
  } else if (target.id === "filter") {
    target.blur();
  } else {
    closeRow(target.closest("tbody.open")?.querySelector("a.opener"));
  }
}

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  const target = event.target;
  const isTyping = target.matches("input, textarea, select");
  if (event.key === "Escape") {
    escape(target);
  } else if (event.key === "/" && !isTyping) {
    event.preventDefault();
    document.getElementById("filter")?.focus();
  } else if (event.key in STEPS && (target.matches("a.opener") || (target.id === "filter" && event.key === "ArrowDown"))) {
    event.preventDefault();
    step(STEPS[event.key]);
  }
});

plan();
setStatus("live", "Live");
