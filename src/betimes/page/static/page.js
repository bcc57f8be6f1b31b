// Keeps a page up to date without losing scroll, focus, selection or what is open; and shows instants in the browser's zone.
"use strict";

const base = document.body.dataset.base;
const main = document.getElementById("main");
const notice = document.getElementById("notice");
const REPLAYED_MS = 1e11; // instants before 1973 are those of a replayed trace, which counts from 0

// --- instants

function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [unit, many] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, each]) => size >= each);
  const text = `${Math.round(size / many)} ${unit}`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

let timeZone = localStorage.getItem("zone") === "UTC" ? "UTC" : undefined; // undefined: that of the browser

function clock(at, spanS) {
  const now = new Date();
  const near = spanS === undefined ? Math.abs(at - now) < 600e3 : spanS < 600;
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: near ? "2-digit" : undefined, hour12: false, timeZone });
  if (at.toLocaleDateString([], { timeZone }) === now.toLocaleDateString([], { timeZone })) return time;
  const date = Math.abs(at - now) < 6 * 86400e3
    ? at.toLocaleDateString([], { weekday: "short", timeZone })
    : at.toLocaleDateString([], { day: "numeric", month: "short", timeZone });
  return spanS > 6 * 86400 ? date : `${date} ${time}`;
}

function sinceStart(seconds) {
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const days = Math.floor(seconds / 86400);
  return `${days ? `${days} d ` : ""}${two((seconds / 3600) % 24)}:${two((seconds / 60) % 60)}`;
}

function showInstants(within) {
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    const text = clock(at) + (each.className === "alone" ? "" : `, ${relative((at - Date.now()) / 1000)}`);
    if (each.textContent !== text) each.textContent = text;
    each.title = timeZone ? at.toUTCString() : at.toString();
  }
  for (const each of within.querySelectorAll("text[data-at]")) {
    const at = Number(each.dataset.at);
    const text = at * 1000 < REPLAYED_MS ? sinceStart(at) : clock(new Date(at * 1000), Number(each.dataset.span));
    if (each.textContent !== text) each.textContent = text;
  }
}

// Where there is no room for columns a row is a card, in which each cell stands behind the head of its column.
const CLEAR = new Set([undefined, "", "User", "Status", "Why", "Choose", "From its start to its end"]); // without its head, too

function labelCells(within) {
  for (const table of within.querySelectorAll("table.cards")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.dataset.short ?? head.textContent.replace(/[▴▾]/, "").trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, at) => { if (cell.nodeName === "TD" && cell.className !== "picture" && !CLEAR.has(heads[at]) && !cell.querySelector(".on-card")) cell.dataset.label = heads[at]; });
    }
  }
}

const zone = document.getElementById("zone");

function showZone() {
  zone.textContent = timeZone ? "Show those of my zone" : "Show UTC";
  zone.previousElementSibling.textContent = timeZone ? "Times are in UTC." : `Times are those of your zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`;
  showInstants(document);
}

zone.hidden = false;
zone.addEventListener("click", () => {
  timeZone = timeZone ? undefined : "UTC";
  localStorage.setItem("zone", timeZone ?? "");
  showZone();
});

// --- putting a fragment in place: what is the same stays the same element

function keyOf(node) {
  return node.nodeType === 1 ? node.id || node.getAttribute("aria-labelledby") : null;
}

function isBlank(node) {
  return node.nodeType === 3 && !node.nodeValue.trim();
}

function morph(old, fresh) {
  const byKey = new Map([...old.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
  const kept = new Set([...fresh.childNodes].map(keyOf));
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    // What is gone goes first: an element that is moved loses the focus.
    while (at && ((isBlank(at) && !isBlank(wanted)) || (keyOf(at) && !kept.has(keyOf(at))))) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
    const key = keyOf(wanted);
    const match = key ? byKey.get(key) : at && !keyOf(at) ? at : null;
    if (!match || match.nodeType !== wanted.nodeType || match.nodeName !== wanted.nodeName) {
      old.insertBefore(wanted, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    update(match, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function update(old, fresh) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  const isEdited = old === document.activeElement && /^(INPUT|TEXTAREA|SELECT)$/.test(old.nodeName);
  if (isEdited || (old.dataset && "keep" in old.dataset)) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS") && name !== "title") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "TIME" && old.dateTime === fresh.dateTime) return;
  morph(old, fresh);
}

function put(html) {
  const fresh = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
  showInstants(fresh);
  labelCells(fresh);
  morph(main, fresh);
  followOutput();
  fill();
}

// --- being up to date

let refreshing = false;
let again = false;

async function refresh() {
  if (refreshing) { again = true; return; }
  if (drag || main.querySelector("[data-still]")) return; // a form that is being filled in
  refreshing = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Fragment": "main" } });
    if (answer.status === 401) return say("You are signed out.", true);
    if (answer.ok || answer.status === 404) put(await answer.text());
    if (!answer.ok) say(`The service answers with an error (${answer.status}). What is shown may be out of date.`);
    else say("");
  } catch {
    say("The service does not answer. What is shown may be out of date; it goes on by itself when the service is back.");
  } finally {
    refreshing = false;
    if (again) { again = false; refresh(); }
  }
}

function say(text, signIn = false) {
  notice.hidden = !text;
  if (notice.textContent !== text) notice.textContent = text;
  if (signIn) {
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = " Sign in again";
    notice.append(link);
  }
}

let stream = null;

function listen() {
  if (stream || document.hidden || !("live" in document.body.dataset)) return;
  let shown = null;
  stream = new EventSource(`${base}events`);
  stream.onopen = () => { shown = null; }; // the first event refreshes the page, also where nothing has happened meanwhile
  stream.onmessage = ({ data }) => { if (data !== shown) { shown = data; refresh(); } };
  stream.onerror = () => {
    say("The service does not answer. What is shown may be out of date; it goes on by itself when the service is back.");
    if (stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(listen, 2000); refresh(); }
  };
}

// A browser opens six connections to a service at most: a page that nobody sees needs none.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) { listen(); return; }
  stream?.close();
  stream = null;
});
setInterval(() => showInstants(document), 5000);

// --- output that follows, and in which lines are found

const outputs = new WeakMap(); // of each element the pieces that have come
const MOST_PIECES = 5000;

function partOf(pre, what) {
  return main.querySelector(`input[data-${what}="${pre.id}"]`);
}

function isAtEnd(pre) {
  return pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
}

function addOutput(pre, piece) {
  const pieces = outputs.get(pre) ?? [];
  outputs.set(pre, pieces);
  pieces.push(piece);
  if (pieces.length > MOST_PIECES) pieces.shift();
  if (partOf(pre, "find")?.value) { findInOutput(pre); return; }
  pre.append(piece);
  while (pre.childNodes.length > MOST_PIECES) pre.firstChild.remove();
  if (partOf(pre, "tail")?.checked ?? true) pre.scrollTop = pre.scrollHeight;
}

function findInOutput(pre) {
  const wanted = partOf(pre, "find").value.toLowerCase();
  const pieces = outputs.get(pre) ?? [];
  const lines = pieces.join("").split("\n");
  const found = wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
  pre.replaceChildren(...(wanted ? [found.join("\n")] : pieces));
  partOf(pre, "find").closest("p").querySelector("[role=status]").textContent = wanted ? `${found.length.toLocaleString()} of ${lines.length.toLocaleString()} lines` : "";
  if (partOf(pre, "tail").checked) pre.scrollTop = pre.scrollHeight;
}

main.addEventListener("input", ({ target }) => {
  if (target.dataset.find) findInOutput(document.getElementById(target.dataset.find));
  const followed = target.dataset.tail && target.checked && document.getElementById(target.dataset.tail);
  if (followed) followed.scrollTop = followed.scrollHeight;
});
// Who scrolls away from the end reads there, and who comes back to it follows again.
main.addEventListener("scroll", ({ target }) => {
  const box = target.dataset?.log && partOf(target, "tail");
  if (box) box.checked = isAtEnd(target);
}, true);

async function followOutput() {
  for (const pre of document.querySelectorAll("pre[data-log]:not([data-followed])")) {
    pre.dataset.followed = "";
    try {
      const answer = await fetch(pre.dataset.log);
      if (!answer.ok) { pre.textContent = "No output can be read."; continue; }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await reader.read(); !piece.done && pre.isConnected; piece = await reader.read()) {
        addOutput(pre, piece.value);
      }
      if (!pre.isConnected) reader.cancel();
    } catch {
      delete pre.dataset.followed; // tried again with the next refresh
      outputs.delete(pre);
      pre.textContent = "";
    }
  }
}

// --- parts that take longer than their page: the effect of a policy on the queue

async function fill() {
  for (const each of main.querySelectorAll("[data-fill]:not([data-filled])")) {
    each.dataset.filled = "";
    try {
      const answer = await fetch(each.dataset.fill, { headers: { "X-Fragment": "main" } });
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("effect");
      if (!found) continue; // what stands there leads to the page itself
      showInstants(found);
      labelCells(found);
      each.replaceChildren(found);
    } catch {
      delete each.dataset.filled; // tried again with the next refresh
    }
  }
}

// --- the window of the timeline: dragged, or zoomed by the wheel; the address has it

let drag = null, wheeled = null;

function windowOf() {
  const at = document.getElementById("window"), picture = at?.querySelector("svg.axis");
  if (!picture) return null;
  const { left, width } = picture.getBoundingClientRect();
  return { at, left, width, from: Number(at.dataset.from), to: Number(at.dataset.to) };
}

function look(from, to) {
  const url = new URL(location.href);
  url.searchParams.delete("span");
  url.searchParams.set("from", from.toFixed(1));
  url.searchParams.set("to", to.toFixed(1));
  history.pushState(null, "", url);
  refresh();
}

addEventListener("popstate", refresh);

main.addEventListener("pointerdown", (event) => {
  const seen = event.button === 0 && event.target.closest("#window svg") ? windowOf() : null;
  if (seen) drag = { ...seen, x: event.clientX, by: 0 };
});
addEventListener("pointermove", (event) => {
  if (!drag) return;
  drag.by = event.clientX - drag.x;
  if (Math.abs(drag.by) > 3) for (const each of drag.at.querySelectorAll(".line > svg")) each.style.transform = `translateX(${drag.by}px)`;
});
function drop() {
  if (!drag) return;
  const { at, by, width, from, to } = drag;
  drag = null;
  for (const each of at.querySelectorAll(".line > svg")) each.style.transform = "";
  if (Math.abs(by) > 3) {
    const ignore = (click) => click.preventDefault(); // a drag opens no job
    addEventListener("click", ignore, true);
    setTimeout(() => {
      removeEventListener("click", ignore, true);
      look(from - (by / width) * (to - from), to - (by / width) * (to - from));
    });
  }
}
addEventListener("pointerup", drop);
addEventListener("pointercancel", drop);
main.addEventListener("dragstart", (event) => { if (drag) event.preventDefault(); });
main.addEventListener("wheel", (event) => {
  const seen = event.ctrlKey || event.target.closest("#window .line:first-child") ? windowOf() : null;
  if (!seen || !event.target.closest("#window")) return;
  event.preventDefault();
  const held = wheeled ?? { ...seen, size: 1 };
  held.size = Math.min(Math.max(held.size * 2 ** (event.deltaY / 400), 1 / 64), 64);
  clearTimeout(held.timer);
  const share = (event.clientX - seen.left) / seen.width, pivot = seen.from + share * (seen.to - seen.from);
  held.timer = setTimeout(() => {
    wheeled = null;
    look(pivot - (pivot - seen.from) * held.size, pivot + (seen.to - pivot) * held.size);
  }, 150);
  wheeled = held;
}, { passive: false });

// --- forms

document.addEventListener("submit", async (event) => {
  const form = event.target, button = event.submitter;
  if (button?.dataset.confirm && !confirm(button.dataset.confirm)) { event.preventDefault(); return; }
  if (form.id !== "act") return;
  event.preventDefault();
  const fields = new URLSearchParams(new FormData(form, button));
  for (const box of document.querySelectorAll("input[form=act]:checked")) box.checked = false;
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields, headers: { "X-Fragment": "main" } });
    if (answer.ok) put(await answer.text());
    else say(new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".note")?.textContent || "That was refused.");
  } catch {
    say("The service does not answer. Nothing was changed.");
  }
});

let asked = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-quote]");
  if (!form) return;
  const mine = ++asked;
  setTimeout(async () => {
    if (mine !== asked) return;
    const answer = await fetch(form.dataset.quote, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => null);
    if (mine !== asked || !answer?.ok) return;
    const quote = document.getElementById("quote");
    quote.innerHTML = await answer.text(); // written by the service's templates, which escape what was typed
    showInstants(quote);
  }, 400);
});

showZone();
labelCells(main);
followOutput();
fill();
listen();
