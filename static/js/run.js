// The page of one run: stored cards replace each other by id, streamed text is shown until its card is stored.
import { tell } from "./news.js";
import { QUEUE_MS } from "./queue.js";
import { Socket } from "./socket.js";

const root = document.querySelector("[data-run-socket]");
const list = document.getElementById("steps");
const streams = new Map(); // "call kind" -> {text, next, late}
let unseen = 0;

const seq = () => Number(root.dataset.seq);
const atEnd = () => window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 120;

const KEEP = {
  // What a person opened, typed or focused stays as they left it.
  beforeAttributeUpdated: (name, node) => !(node.tagName === "DETAILS" && (name === "open" || name === "data-touched")) && !(name === "disabled" && node.closest?.(".htmx-request")),
  beforeNodeMorphed: (node, fresh) => !(node.nodeType === 1 && (node.hasAttribute("data-keep") || staysLoaded(node, fresh))),
};

// A long body is fetched by itself. What was fetched stays, until what it shows has changed and is there.
function staysLoaded(node, fresh) {
  if (!fresh.matches?.("[data-lazy]") || !node.matches(".step-body:not([data-lazy])")) return false;
  if (node.dataset.version !== fresh.dataset.version) fetchBody(node, fresh);
  return true;
}

// An answer may be older than what has happened while it was on its way: then it is asked for once more.
async function fetchBody(node, fresh) {
  const card = node.closest("li");
  card.wanted = Number(fresh.dataset.version);
  if (node.classList.contains("htmx-request")) return;
  await window.htmx.ajax("GET", fresh.getAttribute("hx-get"), { source: node, target: node, swap: "outerHTML" });
  const now = card.querySelector(".step-body:not([data-lazy])");
  if (now && now !== node && Number(now.dataset.version) < card.wanted) fetchBody(now, fresh);
}

const gapsNow = () => [...list.querySelectorAll("li[data-gap]")];
const covers = (gap, step) => Number(gap.dataset.first) <= step && step <= Number(gap.dataset.last);
const before = (step) => [...list.querySelectorAll("li[data-step], li[data-gap]")].reverse().find((item) => Number(item.dataset.step ?? item.dataset.last) < step);

// What was missed is no longer true as it stands here: a gap takes its place, and brings it when it is asked to. What is
// on its way to a gap that goes is older than this news and finds no place any more: it is asked for again.
function placeGap(gap) {
  for (const item of list.querySelectorAll("li[data-step]")) if (covers(gap, Number(item.dataset.step))) item.remove();
  const gone = gapsNow().filter((old) => covers(gap, Number(old.dataset.first)) && covers(gap, Number(old.dataset.last)));
  const asked = gone.some((old) => old.querySelector(".htmx-request"));
  for (const old of gone) old.remove();
  const after = before(Number(gap.dataset.first));
  if (after) after.after(gap); else list.prepend(gap);
  window.htmx.process(gap);
  if (asked) gap.querySelector("button").click();
  return gap;
}

function place(element) {
  if (element.matches("li[data-gap]")) return list && placeGap(element);
  const now = element.id && document.getElementById(element.id);
  if (now) {
    window.Idiomorph.morph(now, element, { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks: KEEP });
    const kept = document.getElementById(element.id);
    window.htmx.process(kept);
    return kept;
  }
  if (!element.matches("li[data-step]") || !list) return null;
  const step = Number(element.dataset.step);
  const first = list.querySelector("li[data-step]");
  if (gapsNow().some((gap) => covers(gap, step))) return null;
  if (first && step < Number(first.dataset.step) && !before(step)) return null; // older than the window shown
  const after = before(step);
  if (after) after.after(element); else list.prepend(element);
  foldOlder();
  window.htmx.process(element);
  unseen += 1;
  return element;
}

function show(frame) {
  if (frame.seq <= seq()) return; // a repeat: everything up to here is on the page
  const follow = atEnd();
  const box = document.createElement("template");
  box.innerHTML = frame.html;
  for (const element of [...box.content.children]) place(element);
  if (list?.firstElementChild) document.getElementById("none-yet")?.remove();
  if (!frame.more) root.dataset.seq = frame.seq;
  for (const key of [...streams.keys()]) paint(key);
  talk();
  trim();
  announce(frame.said);
  tell("run-changed");
  settle(follow);
}

// What it waits for has changed, and nothing happened in it.
function showHead(html) {
  const box = document.createElement("template");
  box.innerHTML = html;
  for (const element of [...box.content.children]) place(element);
}

// The newest cards are open; older ones fold away, unless a person opened them.
const OPEN = 3;
function foldOlder() {
  const cards = [...list.querySelectorAll("details.step")];
  for (const card of cards.slice(0, -OPEN)) if (card.open && !card.dataset.touched && !card.contains(document.activeElement)) card.open = false;
}
list?.addEventListener("click", (event) => {
  const summary = event.target.closest("details.step > summary");
  if (summary) summary.parentElement.dataset.touched = "yes";
});

function talk() {
  const field = document.getElementById("say-text");
  const head = document.getElementById("run-head");
  if (!field || !head) return;
  const may = head.dataset.talk === "yes";
  field.form.hidden = !may;
  for (const part of [field, field.form.querySelector("button")]) part.disabled = !may;
  field.placeholder = may ? "Tell the agent something, or /stop, /pause, /resume" : "This run has ended";
}

const MOST = 150;
function trim() {
  if (!list || !atEnd()) return;
  const items = list.querySelectorAll("li[data-step]");
  const keep = items[items.length - MOST];
  while (keep && items.length > MOST && list.firstElementChild !== keep) list.firstElementChild.remove();
  const more = document.getElementById("earlier");
  const first = list.querySelector("li[data-step]");
  if (items.length > MOST && more && first) { more.hidden = false; more.dataset.before = first.dataset.step; }
}

function settle(follow) {
  const more = document.getElementById("unseen");
  if (follow) {
    unseen = 0;
    if (list) window.scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
  }
  if (!more) return;
  more.hidden = unseen === 0;
  more.querySelector("[data-number]").textContent = `${unseen} new step${unseen === 1 ? "" : "s"}`;
}

function announce(text) {
  const said = document.getElementById("said");
  if (said && text) said.textContent = text;
}

// --- streamed pieces: numbered by (call, offset), transient, gone when their card is stored -------------------------
function add(delta) {
  const key = `${delta.call} ${delta.kind}`;
  let stream = streams.get(key);
  if (!stream) streams.set(key, stream = { text: "", next: delta.offset, late: delta.offset > 0 });
  const size = [...delta.text].length;
  if (delta.offset + size <= stream.next) return; // seen
  if (delta.offset > stream.next) stream.late = true;
  const seen = stream.next - delta.offset;
  stream.text = (stream.text + (seen > 0 ? [...delta.text].slice(seen).join("") : delta.text)).slice(-40_000);
  stream.next = delta.offset + size;
  return key;
}

function paint(key) {
  const [call, kind] = key.split(" ");
  const spot = document.querySelector(`[data-stream="${CSS.escape(call)}"]`);
  const stream = streams.get(key);
  if (!spot) return; // not drawn yet, or stored already
  let box = spot.querySelector(`[data-kind="${kind}"]`);
  if (!box) {
    box = document.createElement("pre");
    box.dataset.kind = kind;
    box.className = "streamed";
    box.tabIndex = 0;
    box.setAttribute("role", "log");
    box.setAttribute("aria-live", "off");
    box.setAttribute("aria-label", { thinking: "Thinking, live", text: "Answer, live", call: "Tool call, live", stdout: "Output, live", stderr: "Errors, live" }[kind] || "Live");
    spot.append(box);
  }
  const working = spot.querySelector(".working[data-then]"); // a small machine reads for minutes before its first word
  if (working) working.querySelector("span").textContent = working.dataset.then;
  const stick = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  box.textContent = (stream.late ? "… " : "") + stream.text;
  spot.hidden = false;
  if (stick) box.scrollTop = box.scrollHeight;
}

// Painted once a frame, however much came: a page with thousands of lines takes its time to be laid out, and what happens
// next must not wait behind every word.
const unpainted = new Set();
function stream(deltas) {
  const waits = unpainted.size > 0;
  for (const key of deltas.map(add).filter(Boolean)) unpainted.add(key);
  if (!waits && unpainted.size > 0) requestAnimationFrame(paintAll);
  if (streams.size > 200) for (const key of [...streams.keys()].slice(0, 100)) streams.delete(key);
}
function paintAll() {
  const follow = atEnd();
  for (const key of unpainted) if (streams.has(key)) paint(key);
  unpainted.clear();
  if (follow && list) settle(true);
}

const socket = new Socket(root.dataset.runSocket, {
  query: () => `?after=${seq()}`,
  onFrame(frame) {
    if (frame.t === "cards") show(frame);
    else if (frame.t === "head") showHead(frame.html);
    else if (frame.t === "deltas" && list) stream(frame.deltas);
    else if (frame.t === "queue") tell("queue-changed", QUEUE_MS);
  },
});
socket.denied = () => { document.getElementById("closed-note")?.removeAttribute("hidden"); };

document.getElementById("unseen")?.addEventListener("click", () => settle(true));
window.addEventListener("scroll", () => { if (unseen && atEnd()) settle(true); }, { passive: true });
document.getElementById("earlier")?.addEventListener("htmx:configRequest", (event) => {
  const first = list.querySelector("li[data-step]");
  if (first) event.detail.parameters.before = first.dataset.step;
});
document.addEventListener("click", (event) => {
  const all = event.target.closest("[data-fold]");
  if (all) for (const details of list.querySelectorAll("details.step")) details.open = all.dataset.fold === "open";
});

// --- an address ends in #step-N: that step is brought, opened, shown and marked, however far up it is ---------------
async function bring(number) {
  let gap;
  while ((gap = gapsNow().find((one) => covers(one, number)))) {
    await window.htmx.ajax("GET", `${list.dataset.steps}?first=${gap.dataset.first}&last=${gap.dataset.last}&at=${number}`, { source: list, target: gap, swap: "outerHTML" });
    if (gap.isConnected) return; // it could not be had; a gap that came in place of this one is asked in turn
  }
  const first = list.querySelector("li[data-step]:not([data-step='0'])");
  if (!first || number >= Number(first.dataset.step)) return;
  await window.htmx.ajax("GET", `${list.dataset.steps}?first=0&last=${Number(first.dataset.step) - 1}&at=${number}`, { source: list, target: list, swap: "afterbegin" });
  document.getElementById("earlier")?.setAttribute("hidden", ""); // what is left out above has gaps of its own
}

async function aim() {
  const number = Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? NaN);
  if (!list || Number.isNaN(number)) return;
  const here = () => document.getElementById(`step-${number}`);
  const wasHere = here();
  if (!wasHere) await bring(number);
  const card = here();
  if (!card) { document.dispatchEvent(new CustomEvent("say", { detail: { text: `This run has no step ${number}.`, look: "error" } })); return; }
  card.querySelector("details.step")?.setAttribute("open", "");
  if (!wasHere) location.replace(location.hash); // so that it is the target of the address, and marked as such
  card.scrollIntoView({ block: "start" });
}
window.addEventListener("hashchange", aim);
aim();

// --- the drawing of the lifecycle is wider than a phone: it begins where the run stands -----------------------------
const stands = document.querySelector(".machine .phase[data-look=now]");
if (stands) {
  const [frame, box] = [stands.closest(".scroll"), stands.getBoundingClientRect()];
  frame.scrollLeft += box.left + box.width / 2 - frame.getBoundingClientRect().left - frame.clientWidth / 2;
}
