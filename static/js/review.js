// Review by keyboard, the lock on long views, selection for bulk decisions. Every action is a form that works without this.
import { tinykeys } from "../vendor/tinykeys@3.1.0/tinykeys.module.js";

document.documentElement.classList.add("js");
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

const typing = () => {
  const at = document.activeElement;
  return at && (at.isContentEditable || ["TEXTAREA", "SELECT"].includes(at.tagName)
    || (at.tagName === "INPUT" && !["checkbox", "radio", "button", "submit"].includes(at.type)));
};
// While a card is on its way, its keys are not for the one that goes: they would be lost with it, or worse, the rest of
// what somebody types would be taken for commands to the next.
const onItsWay = () => one("[data-gate] form.htmx-request, .row-link.htmx-request");
let wentAt = -Infinity; // `g r` goes to Review; it does not reject
window.addEventListener("keydown", (event) => { if (event.key === "g") wentAt = event.timeStamp; });
// Whoever was writing on a card that is decided meanwhile goes on typing: that is meant for no other card.
let interruptedAt = -Infinity;
const PAUSE = 1500; // milliseconds without a key, after which one is meant again
const free = (act) => (event) => {
  if (event.timeStamp - interruptedAt < PAUSE) { interruptedAt = event.timeStamp; return; }
  if (event.repeat || typing() || one("dialog[open]") || event.timeStamp - wentAt < 1000) return;
  if (act(event) !== false) event.preventDefault();
};
const inView = (element) => {
  const box = element.getBoundingClientRect();
  return box.height > 0 && box.top >= ceiling() - 1 && box.bottom <= window.innerHeight + 1;
};
const show = (element) => element.scrollIntoView({ block: "nearest" });

// What a sticky head covers is not in view, and nothing is scrolled behind it.
const bar = one(".run-head");
const ceiling = () => (bar && getComputedStyle(bar).position === "sticky" ? bar.getBoundingClientRect().height : 0);
if (bar) new ResizeObserver(() => { document.documentElement.style.scrollPaddingTop = ceiling() ? `${ceiling() + 12}px` : ""; }).observe(bar);

// --- one selection: what is marked is what is decided --------------------------------------------------------------
// On the Review page it is `data-selected`: the list marks its row, and only its own card takes keys. On the page of a
// run it is the card that is marked: the first, until `j`, `k` or the focus moves on.
const review = () => one("#review");
const rows = () => all("#queue [data-row]");
const linkOf = (row) => one("a", row);
const isShown = (element) => element.getClientRects().length > 0;
const deciding = () => all("[data-gate]").filter((gate) => one("[data-verdicts]", gate) && isShown(gate));
let marked = "";
let place = -1; // of the marked row: where it was, once somebody else has decided it
const selected = () => (review() ? review().dataset.selected : marked);
const rowOf = (id) => rows().find((row) => row.dataset.row === id);
const focusedRow = () => rows().find((row) => row.contains(document.activeElement));

function card() {
  const gate = document.getElementById(`gate-${selected()}`);
  return gate && isShown(gate) ? gate : null;
}

function mark() {
  if (!review()) {
    const open = deciding();
    if (!open.some((gate) => gate.dataset.gate === marked)) {
      if (marked && open.length) open[0].dataset.came = performance.now();
      marked = open[0]?.dataset.gate ?? "";
    }
  }
  for (const gate of all("[data-gate]")) gate.toggleAttribute("data-marked", gate.dataset.gate === selected());
  rows().forEach((row, at) => {
    if (row.dataset.row === selected()) place = at;
    if (row.dataset.row === selected()) linkOf(row).setAttribute("aria-current", "true");
    else linkOf(row).removeAttribute("aria-current");
  });
}

function select(id) {
  if (review()) review().dataset.selected = id; else marked = id;
  mark();
}

function openRow(row) {
  select(row.dataset.row);
  linkOf(row).focus({ preventScroll: true });
  show(row);
  linkOf(row).click();
  return true;
}

function markCard(gate) {
  select(gate.dataset.gate);
  const head = one(".gate-head", gate);
  if (!inView(head)) head.scrollIntoView({ block: "start" });
  gate.dataset.met = "yes";
  return true;
}

function move(by) {
  const list = review() ? rows() : deciding();
  if (!list.length) return false;
  const at = list.findIndex((item) => (item.dataset.row ?? item.dataset.gate) === selected());
  const gone = place < 0 ? (by > 0 ? 0 : list.length - 1) : place + Math.min(by, 0);
  const next = list[Math.max(0, Math.min(list.length - 1, at < 0 ? gone : at + by))];
  if (!review()) return markCard(next);
  return next.dataset.row === selected() && card() ? (show(next), true) : openRow(next);
}

function toggle() {
  const box = one("input[type=checkbox]", rowOf(selected()) ?? document.createElement("i"));
  if (!box) return false;
  box.click();
  return true;
}

// A key for the card: first the row that has the focus, or the card itself, becomes the one that is marked and shown.
const onCard = (act) => free((event) => {
  if (onItsWay()) return true;
  const elsewhere = focusedRow() ?? rowOf(selected());
  if (elsewhere && (elsewhere.dataset.row !== selected() || !card())) return openRow(elsewhere);
  const gate = card() ?? (review() ? null : deciding()[0]);
  if (!gate) return false;
  if (gate.dataset.gate !== selected()) return markCard(gate);
  return act(gate);
});

const picked = new Set();
function tellSelection() {
  const boxes = all("#queue input[name=item]");
  for (const box of boxes) box.checked = picked.has(box.value);
  const chosen = boxes.filter((box) => box.checked);
  const group = chosen[0]?.dataset.group;
  for (const box of boxes) box.disabled = Boolean(group) && box.dataset.group !== group;
  const bar = one("[data-bulk]");
  if (!bar) return;
  bar.hidden = chosen.length === 0;
  one("[data-bulk-said]", bar).textContent = `${chosen.length} selected (same kind and risk)`;
  one("[value=approve]", bar).hidden = !/^tool_approval\//.test(group ?? "");
}

// --- the card ------------------------------------------------------------------------------------------------------
const SEEN = 500; // milliseconds a card, or a part of one, is on the screen before a key or a press is meant for it
const isTooSoon = (gate) => performance.now() - Number(gate.dataset.came ?? -SEEN) < SEEN;
const refuse = (button) => { button.classList.add("nudge"); return true; };

// Every verdict says its own key: `data-key` on a button that decides or opens a form, on a field, or on a choice.
function press(key) {
  const act = (gate) => {
    if (!one("[data-verdicts]", gate)) return false; // decided meanwhile, by somebody else
    const target = all(`[data-key="${key}"]`, gate).find(isShown);
    if (!target) {
      const field = key === "a" && one("[data-main]", gate);
      if (field) { show(field); field.focus(); }
      return Boolean(field);
    }
    if (target.dataset.pane) return openPane(gate, target.dataset.pane);
    if (target.matches("textarea, input")) { show(target); target.focus(); return true; }
    if (target.dataset.choice) { target.click(); return true; }
    return decide(gate, target, key);
  };
  return act;
}

// The first press shows what is out of view; what was shown, the second decides.
function decide(gate, button, key) {
  if (!one("[data-verdicts]", gate)) return false;
  // At once, whatever was shown: letters of the word would else be taken for keys, and `r` among them rejects.
  const word = one("[data-word]", button.form);
  if (word && !button.disabled && word.value.trim() !== word.dataset.word) { show(word); word.focus(); return true; }
  if (isTooSoon(gate)) return refuse(button);
  const head = one(".gate-head", gate);
  if (!gate.dataset.met && !inView(head)) { gate.dataset.met = "yes"; head.scrollIntoView({ block: "start" }); return refuse(button); }
  if (button.disabled || (button.hasAttribute("data-approve") && !isRead(gate))) return goOn(gate);
  if (!inView(button) && gate.dataset.armed !== key) { gate.dataset.armed = key; show(button); return refuse(button); }
  button.click(); // so that its own name and value are sent, too
  return true;
}

// High risk takes a second, different key, or a second button: the same one pressed again is a slip.
document.addEventListener("submit", (event) => {
  const gate = event.target.closest(READ);
  if (gate && event.submitter?.hasAttribute("data-approve") && (isTooSoon(gate) || !isRead(gate))) {
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isTooSoon(gate)) refuse(event.submitter); else goOn(gate);
    return;
  }
  const sure = one("[data-sure]", event.target);
  if (!sure || sure.contains(event.submitter)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  sure.hidden = false;
  if (typing()) document.activeElement.blur(); // so that `y` is a key
  show(sure);
}, true);

// Several that were selected are decided together, on a page that names them.
const together = (verdict, alone) => (event) => {
  const bar = one("[data-bulk]:not([hidden])");
  if (!bar || typing() || event.repeat || one("dialog[open]")) return alone(event);
  const button = verdict && one(`[value=${verdict}]:not([hidden])`, bar);
  event.preventDefault();
  if (button) button.click(); else one("[data-bulk-said]", bar).classList.add("nudge");
  return true;
};

function openPane(gate, name) {
  const pane = one(`[data-pane-of="${name}"]`, gate);
  if (!pane) return false;
  const opening = pane.hidden;
  for (const other of all("[data-pane-of]", gate)) other.hidden = true;
  for (const button of all("[data-pane]", gate)) button.setAttribute("aria-expanded", String(opening && button.dataset.pane === name));
  pane.hidden = !opening;
  if (opening) { show(pane); one("textarea, input:not([type=hidden]), select", pane)?.focus(); }
  return true;
}

function submitPresent(event) {
  // Who looks something up on the card and leaves the field has still written there.
  const form = document.activeElement?.closest("[data-gate] form[data-verdict]") ?? (typing() ? null : one("[data-pane-of]:not([hidden])", card() ?? document.createElement("i")));
  const button = form && one("button[type=submit]", form);
  if (!button) return;
  event.preventDefault();
  button.click(); // so that its own name and value are sent, too
}

// What a verdict lets happen has been on the screen: the very end of a long card, and of each changed file.
let ends = null;
const told = (entries) => { for (const entry of entries) if (entry.isIntersecting) saw(entry.target); };
// What the bar with the buttons covers has not been seen.
function covered() {
  const buttons = one("[data-verdicts]");
  const style = buttons && getComputedStyle(buttons);
  if (style?.position !== "sticky") return 0;
  return Math.min(buttons.offsetHeight + (parseFloat(style.bottom) || 0), window.innerHeight * 0.6);
}
const fileOf = (end) => end.closest("[data-file]");
const unseen = (gate) => all("[data-file], [data-end]", gate).filter((part) => (part.dataset.file === undefined ? !fileOf(part) && !part.dataset.met : !part.dataset.proof));
function watchEnds() {
  ends?.disconnect();
  ends = new IntersectionObserver(told, { rootMargin: `0px 0px -${Math.max(0, Math.floor(covered()) - 2)}px 0px` });
  for (const end of all("[data-long] [data-end]")) if (!end.dataset.met) ends.observe(end);
  all("[data-long]").forEach(unlock);
}
function saw(end) {
  end.dataset.met = "yes";
  ends.unobserve(end);
  if (fileOf(end)) viewed(fileOf(end), end.dataset.proof);
  unlock(end.closest("[data-long]"));
}
function viewed(file, proof) {
  file.dataset.proof = proof;
  one("[data-viewed]", file).hidden = false;
}
function unlock(gate) {
  if (!gate) return;
  const files = all("[data-file]", gate);
  const left = one("[data-left]", gate);
  if (left) left.textContent = `${files.filter((file) => file.dataset.proof).length} of ${files.length} viewed`;
  if (unseen(gate).length) return;
  const proofs = files.map((file) => file.dataset.proof);
  for (const input of all("[data-seen]", gate)) input.value = [input.dataset.seen, ...proofs].join(".");
  for (const button of all("[data-approve]", gate)) button.disabled = false;
  const note = one("[data-long-note]", gate);
  if (note) note.hidden = true;
  gate.removeAttribute("data-long");
  const together = gate.closest("[data-together]"); // several are approved once the end of each has been on the screen
  if (!together || one("[data-long]", together)) return;
  for (const button of all("[data-approve]", together)) button.disabled = false;
  for (const said of all("[data-long-note]", together)) said.hidden = true;
}
// How far down a card was on the screen without a part left out: a jump to its end is no reading. Pixels from its top.
const READ = "[data-gate], [data-together]"; // one card, or several that are decided together
const STEP = 0.8; // of the screen, so that a line is seen again
const read = new WeakMap();
const readTo = (gate) => read.get(gate) ?? 0;
function look() {
  for (const gate of all(READ)) {
    const top = gate.getBoundingClientRect().top;
    const [from, to] = [ceiling() - top, window.innerHeight - covered() - top];
    if (from <= readTo(gate) + 1 && to > readTo(gate)) read.set(gate, to);
  }
}
// What is folded or unfolded moves what follows it: reading goes on from there. So does what comes late, when it is opened.
const heights = new WeakMap();
const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const [before, now] = [heights.get(target), contentRect];
    heights.set(target, now);
    const gate = target.closest(READ);
    if (!gate || !before || before.height === now.height || before.width !== now.width) continue;
    read.set(gate, Math.min(readTo(gate), target.getBoundingClientRect().top - gate.getBoundingClientRect().top));
  }
});
const watchFolds = () => { for (const fold of all(`:is(${READ}) details`)) if (!heights.has(fold)) resized.observe(fold); };
// What is decided on ends before what stands around it.
function isRead(gate) {
  look();
  const end = one("[data-bound]", gate);
  return !end || readTo(gate) >= end.getBoundingClientRect().top - gate.getBoundingClientRect().top;
}
// On to what has not been on the screen: to the beginning of the next file once all before it was read, else to where
// reading stopped.
function goOn(gate) {
  gate.dataset.came = performance.now();
  const next = unseen(gate)[0];
  const isFile = next?.dataset.file !== undefined;
  if (isFile) next.open = true;
  const box = next?.getBoundingClientRect();
  const stopped = gate.getBoundingClientRect().top + readTo(gate);
  if (isFile && box.top <= stopped + 1 && (box.top > window.innerHeight * STEP || box.bottom < ceiling())) next.scrollIntoView({ block: "start" });
  else if (isRead(gate)) window.scrollBy({ top: window.innerHeight * STEP });
  else window.scrollBy({ top: stopped - ceiling() - (window.innerHeight - ceiling() - covered()) * (1 - STEP) });
  look();
  return true;
}
// A page that glides to its end shows everything for a moment: that is no reading either.
const GLIDE = 150; // milliseconds
let looking = 0;
const lookSoon = () => { looking ||= setTimeout(() => { looking = 0; look(); }, GLIDE); };
for (const name of ["scroll", "resize"]) window.addEventListener(name, lookSoon, { passive: true });

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-unsure]")) event.target.closest("[data-sure]").hidden = true;
  const pane = event.target.closest("[data-pane]");
  if (pane) openPane(pane.closest("[data-gate]"), pane.dataset.pane);
  const choice = event.target.closest("[data-choice]");
  if (choice) { const answer = one("[data-main]", choice.closest("form")); answer.value = choice.dataset.choice; answer.focus(); }
});
document.addEventListener("change", (event) => {
  if (event.target.matches("#queue input[name=item]")) {
    if (event.target.checked) picked.add(event.target.value); else picked.delete(event.target.value);
    tellSelection();
  }
  if (event.target.matches("[data-filters] select")) event.target.form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const pane = document.activeElement?.closest("[data-pane-of]");
  if (pane) { openPane(pane.closest("[data-gate]"), pane.dataset.paneOf); one(`[data-pane="${pane.dataset.paneOf}"]`, pane.closest("[data-gate]"))?.focus(); }
});

// Claiming draws the card anew, and so does what others do. What somebody has begun to write on it stays, if it is still
// about the same thing; a reason to reject it stays while it is open.
const written = (gate) => all("textarea[name], input[name]:not([type=hidden]), select[name]", gate).filter((field) => field.form?.dataset.verdict);
const nameOf = (field) => `${field.form.dataset.verdict} ${field.name}`;
const digestOf = (gate) => one("input[name=digest]", gate)?.value;
let draft = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const asking = event.detail.requestConfig.elt;
  if (!asking.matches("form.claim, [data-gate]") || event.detail.xhr.status === 204) return;
  const gate = asking.closest("[data-gate]");
  if (asking === gate && typing() && gate.contains(document.activeElement)) interruptedAt = performance.now();
  draft = {
    id: gate.id,
    digest: digestOf(gate),
    told: asking === gate,
    fields: new Map(written(gate).map((field) => [nameOf(field), field.value])),
    pane: one("[data-pane-of]:not([hidden])", gate)?.dataset.paneOf,
    came: gate.dataset.came,
    read: readTo(gate),
    seen: new Map(all("[data-file][data-proof]", gate).map((file) => [file.dataset.file, file.dataset.proof])),
  };
});
document.addEventListener("htmx:afterSwap", () => {
  const gate = draft && document.getElementById(draft.id);
  const same = gate && digestOf(gate) === draft.digest;
  if (gate && (same || draft.pane === "reject")) {
    for (const field of written(gate)) if (same || nameOf(field) === "reject reason") field.value = draft.fields.get(nameOf(field)) ?? field.value;
    for (const pane of all("[data-pane-of]", gate)) pane.hidden = pane.dataset.paneOf !== draft.pane;
    for (const button of all("[data-pane]", gate)) button.setAttribute("aria-expanded", String(button.dataset.pane === draft.pane));
  }
  if (same) for (const file of all("[data-file]", gate)) if (draft.seen.has(file.dataset.file)) viewed(file, draft.seen.get(file.dataset.file));
  if (same) read.set(gate, draft.read);
  if (same) gate.dataset.came = draft.came;
  // What somebody else did is said at the top of the card.
  if (gate && draft.told && !inView(one(".gate-head", gate))) one(".gate-head", gate).scrollIntoView({ block: "start" });
  draft = null;
});
// The answer to one's own decision says more than the card as it is then.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.matches?.("[data-gate]") && one("form.htmx-request", event.target)) event.preventDefault();
});

// What was approved waits for some seconds, in which it can be taken back; then the button is gone.
function takeBack() {
  const buttons = all("[data-take-back] button").filter(isShown);
  if (buttons.length !== 1) return false; // of several, decided together, one says which
  buttons[0].click();
  return true;
}
function watchTakeBacks() {
  for (const form of all("[data-take-back]:not([data-watched])")) {
    form.dataset.watched = "yes";
    setTimeout(() => form.remove(), Number(form.dataset.takeBack) * 1000);
  }
}

const decideTogether = { a: "approve", r: "reject", e: "" };
const pressed = (key) => (key in decideTogether ? together(decideTogether[key], onCard(press(key))) : onCard(press(key)));
tinykeys(window, {
  j: free(() => move(1)),
  k: free(() => move(-1)),
  x: free(toggle),
  u: free(takeBack),
  d: free(() => { const link = one("[data-decide]"); link?.click(); return Boolean(link); }),
  ...Object.fromEntries([..."aeyrwbpc123456789"].map((key) => [key, pressed(key)])),
  "$mod+Enter": submitPresent,
});

document.addEventListener("focusin", (event) => {
  const gate = event.target.closest("[data-gate]");
  if (gate && !review() && one("[data-verdicts]", gate)) select(gate.dataset.gate);
});

let begun = false; // the card that the page itself came with is meant at once
function settle() {
  mark();
  for (const gate of all("[data-gate]")) {
    gate.dataset.came ??= begun ? performance.now() : -SEEN;
    if (inView(one(".gate-head", gate))) gate.dataset.met = "yes";
  }
  begun = true;
  watchEnds();
  watchFolds();
  look();
  watchTakeBacks();
  tellSelection();
}
// A run that waits opens at its decision, unless the address or the reader is somewhere else.
let opened = false;
function openAtDecision(place) {
  const link = one("[data-decide]");
  const line = place.matches?.(".in-place") && place.closest(".gate-line");
  if (opened || !line || !link?.hash.endsWith(line.id)) return;
  opened = true;
  if (location.hash === link.hash || (!location.hash && window.scrollY === 0)) line.scrollIntoView({ block: "start" });
}

// A row that is replaced between the press and the release of a button or a finger is never clicked.
let pressing = false;
let late = false;
document.addEventListener("pointerdown", (event) => { pressing = Boolean(event.target.closest("#queue")); });
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => {
  pressing = false;
  if (late) setTimeout(() => document.body.dispatchEvent(new Event("queue-changed"))); // after the click
  late = false;
});
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!pressing || event.detail.target.id !== "queue") return;
  event.detail.shouldSwap = false;
  late = true;
});

// A card comes with a list of its own, and the one that it replaces may have been about to ask, or asking.
let changed = false;
document.body.addEventListener("queue-changed", () => { changed = true; });
document.addEventListener("htmx:beforeSend", (event) => { if (event.target.id === "queue") changed = false; });
document.addEventListener("htmx:xhr:abort", (event) => { if (event.target.id === "queue") changed = true; });

document.addEventListener("htmx:afterSettle", (event) => {
  if (changed && event.target.id === "review") document.body.dispatchEvent(new Event("queue-changed"));
  openAtDecision(event.detail.target ?? document.body);
  settle();
  // A new card begins at its top, and its title is told to those who listen.
  if (event.detail.target?.id === "review" || event.detail.elt?.id === "review") {
    const gate = one("#detail [data-gate]");
    const head = gate && one(".gate-head", gate);
    if (head && !inView(head)) head.scrollIntoView({ block: "start" });
    if (document.activeElement === document.body && one("#queue a[aria-current]")) one("#queue a[aria-current]").focus({ preventScroll: true });
  }
});
window.addEventListener("pageshow", settle);
settle();
const asked = rowOf(selected()); // may be far down the list
if (asked && isShown(asked)) show(asked);
