// The page in motion. The server renders; this asks for the page's content again, once a second, and moves what is
// on the screen to it, so that focus, selection, scrolling and opened parts stay. All state is in the address.
"use strict";

const EVERY = 1000;
const SLOWEST = 30000;
const SHARE = 4; // of the time that an answer takes, until the next is asked for: large fleets are asked less often
const LONGEST = 3600000; // that an answer's Retry-After is heeded for
const SLICE = 6; // milliseconds of work between two frames

const content = document.getElementById("content");
const live = document.getElementById("live");
const news = document.getElementById("news");

let failures = 0;
let timer = 0;
let asking = null;
let took = 0; // milliseconds, for the last answer
let heldOff = 0; // milliseconds for which the last answer asked to be left alone

// --- Moving what is on the screen to what should be.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "");
const isLike = (one, other) => one.nodeName === other.nodeName && !keyOf(one) && !keyOf(other);
const frame = () => new Promise((done) => (document.hidden ? setTimeout(done) : requestAnimationFrame(done)));

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    const isTheirs = name === "open" && old.nodeName === "DETAILS"; // who opened it keeps it open
    if (!fresh.hasAttribute(name) && !isTheirs) old.removeAttribute(name);
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

// Yields a step for each child, so that a long list can be moved in slices.
function* morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  const keys = new Set(wanted.map(keyOf).filter(Boolean));
  const keyed = new Map();
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (key && !keys.has(key)) child.remove(); // before the rest is placed, so that what stays is not moved
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
    while (keyed.has(key) && place && !keyOf(place)) drop(); // what has a key is not moved: it would lose the focus
    if (place && keyed.has(key) && place.nextSibling === keyed.get(key)) {
      old.append(place); // it went further down: it alone is moved, not all those that it was above
      place = keyed.get(key);
    }
    const match = key ? keyed.get(key) : place && isLike(place, next) ? place : null;
    if (!match) old.insertBefore(next, place);
    else if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    if (match) yield () => morph(match, next);
  }
  while (place) drop();
}

// Moves what is on the screen. A row that changes its place keeps the focus and, if somebody reads it, its height.
async function show(fresh, turn) {
  const focused = document.activeElement;
  const read = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("tbody.open");
  const place = read?.previousElementSibling;
  const top = read?.getBoundingClientRect().top;
  await move(fresh, turn);
  if (document.activeElement === document.body && focused.isConnected) focused.focus({ preventScroll: true });
  if (read?.isConnected && read.previousElementSibling !== place) scrollBy(0, read.getBoundingClientRect().top - top);
}

async function move(fresh, turn) {
  const table = content.querySelector("table.fleet");
  const freshTable = fresh.querySelector("table.fleet");
  if (table && freshTable) {
    let since = performance.now();
    for (const step of morphChildren(table, freshTable)) {
      step();
      if (performance.now() - since < SLICE) continue;
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

// --- Asking.

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

function say(state, text) {
  if (live.dataset.state === state && live.textContent === text) return; // else it would be read out again
  live.dataset.state = state;
  live.textContent = text;
}

class Refused extends Error {}

// The reason in words, if the answer is of a few plain ones; a proxy's may be a whole page.
async function reason(answer) {
  const isPlain = answer.headers.get("Content-Type")?.startsWith("text/plain");
  const text = isPlain ? await answer.text() : answer.statusText;
  return text.trim().split("\n")[0].slice(0, 120);
}

async function fetched(turn) {
  const limit = AbortSignal.any([turn.signal, AbortSignal.timeout(10000)]);
  const answer = await fetch(`./fragment${location.search}`, { signal: limit, cache: "no-store" });
  heldOff = answer.ok ? 0 : Math.min(1000 * (Number(answer.headers.get("Retry-After")) || 0), LONGEST);
  if (!answer.ok) throw new Refused(`it answered ${answer.status}: ${await reason(answer)}`);
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = content.cloneNode(false);
  fresh.append(...parsed.body.childNodes);
  return fresh;
}

async function refresh() {
  clearTimeout(timer);
  asking?.abort();
  const turn = (asking = new AbortController());
  try {
    const before = verdicts();
    const begin = performance.now();
    heldOff = 0;
    const fresh = await fetched(turn);
    took = performance.now() - begin;
    await show(fresh, turn);
    if (turn.signal.aborted) return;
    announce(before);
    failures = 0;
    say("live", "Live");
  } catch (error) {
    if (turn.signal.aborted) return;
    failures += 1;
    const why = error instanceof Refused ? error.message : "the exporter does not answer";
    say("stale", `Stale since ${content.querySelector(".asof time").textContent}: ${why}`);
  }
  plan();
}

function plan() {
  clearTimeout(timer);
  if (document.hidden) say("paused", "Paused");
  else timer = setTimeout(refresh, Math.max(Math.min(EVERY * 2 ** failures, SLOWEST), SHARE * took, heldOff));
}

document.addEventListener("visibilitychange", () => (document.hidden ? plan() : refresh()));

// --- Going somewhere within the page.

function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  refresh();
}

addEventListener("popstate", refresh);

document.addEventListener("click", (event) => {
  if (event.target.closest('a[href="#words"]')) document.getElementById("words").open = true;
  const link = event.target.closest("a.opener, a.chip, tr.engine");
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !isPlain || event.defaultPrevented) return;
  const opener = link.matches("tr") ? link.querySelector("a.opener") : link;
  if (link.matches("tr") && (event.target.closest("a") || !getSelection().isCollapsed)) return;
  event.preventDefault();
  go(opener.getAttribute("href"));
});

function filter(text) {
  const asked = new URLSearchParams(location.search);
  if (text) asked.set("q", text);
  else asked.delete("q");
  go(asked.size ? `./?${asked}` : "./", { replace: true });
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

// --- Keys: / to the filter, arrows from row to row, Escape back.

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
say("live", "Live");
