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
// what somebody types would be taken for commands to the next. While it is being taken in, they wait for it; but nobody
// approves a card before it is there.
const onItsWay = () => one("[data-gate] form.htmx-request, .row-link.htmx-request");
const arriving = () => one("#review.htmx-settling, [data-gate].htmx-settling");
const free = (act) => (event) => {
  if (event.repeat || typing() || one("dialog[open]")) return;
  if (act(event) !== false) event.preventDefault();
};
const onCard = (act) => free((event) => {
  if (onItsWay()) return true;
  if (!arriving()) return act(event);
  if (act !== approve) document.addEventListener("htmx:afterSettle", () => setTimeout(() => { if (!typing()) act(event); }), { once: true });
  return true;
});
const inView = (element) => {
  const box = element.getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight;
};
const show = (element) => element.scrollIntoView({ block: "nearest" });

// --- the list ------------------------------------------------------------------------------------------------------
const rows = () => all("#queue [data-row]");
const linkOf = (row) => one("a", row);
const present = () => rows().find((row) => row.contains(document.activeElement)) ?? rows().find((row) => linkOf(row).hasAttribute("aria-current"));

function move(by) {
  const list = rows();
  if (!list.length) return false;
  const at = list.indexOf(present());
  const focused = list[at]?.contains(document.activeElement);
  const next = at < 0 ? 0 : focused ? at + by : at + (by > 0 ? 1 : -1);
  const row = list[Math.max(0, Math.min(list.length - 1, next))];
  linkOf(row).focus();
  show(row);
  return true;
}

function toggle() {
  const box = one("input[type=checkbox]", present() ?? document.createElement("i"));
  if (!box) return false;
  box.click();
  return true;
}

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
  one("[data-bulk-said]", bar).textContent = `${chosen.length} selected, of one kind and risk`;
  one("[value=approve]", bar).hidden = !/^(tool_approval|final_review)\//.test(group ?? "");
}

// --- the card ------------------------------------------------------------------------------------------------------
const card = () => document.activeElement?.closest("[data-gate]") ?? one("#detail [data-gate]") ?? one("[data-gate]");

function approve() {
  const gate = card();
  const button = gate && (one("form.approve [data-approve]", gate) ?? one("form[data-verdict=extend] button[type=submit]", gate));
  const field = gate && one("[data-main]", gate);
  if (!button) { if (field) { show(field); field.focus(); } return Boolean(field); }
  const head = one(".gate-head", gate);
  if (!gate.dataset.met && !inView(head)) { gate.dataset.met = "yes"; head.scrollIntoView({ block: "start" }); button.classList.add("nudge"); return true; }
  if (button.disabled) { window.scrollBy({ top: window.innerHeight * 0.8 }); return true; }
  const word = one("[data-word]", gate);
  if (word && word.value.trim() !== word.dataset.word) { show(word); word.focus(); return true; }
  if (!inView(button)) { show(button); button.classList.add("nudge"); return true; }
  button.form.requestSubmit(button);
  return true;
}

function openPane(name) {
  const gate = card();
  const pane = gate && one(`[data-pane-of="${name}"]`, gate);
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
  const button = form && one("button[type=submit]:not([name])", form);
  if (!button) return;
  event.preventDefault();
  if (!button.disabled) form.requestSubmit(button);
}

// A long view unlocks when its very end has been on the screen.
const ends = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) unlock(entry.target.closest("[data-long]"));
});
function unlock(gate) {
  if (!gate) return;
  for (const input of all("[data-seen]", gate)) input.value = input.dataset.seen;
  for (const button of all("[data-approve]", gate)) button.disabled = false;
  const note = one("[data-long-note]", gate);
  if (note) note.hidden = true;
}

document.addEventListener("click", (event) => {
  const pane = event.target.closest("[data-pane]");
  if (pane) openPane(pane.dataset.pane);
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
  if (pane) { openPane(pane.dataset.paneOf); one(`[data-pane="${pane.dataset.paneOf}"]`, pane.closest("[data-gate]"))?.focus(); }
});

// Claiming draws the card anew. What somebody has begun to write on it stays, if it is still about the same thing.
const written = (gate) => all("textarea[name], input[name]:not([type=hidden]), select[name]", gate).filter((field) => field.form?.dataset.verdict);
const nameOf = (field) => `${field.form.dataset.verdict} ${field.name}`;
const digestOf = (gate) => one("input[name=digest]", gate)?.value;
let draft = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const form = event.detail.requestConfig.elt;
  if (!form.matches("form.claim")) return;
  const gate = form.closest("[data-gate]");
  draft = {
    id: gate.id,
    digest: digestOf(gate),
    fields: new Map(written(gate).map((field) => [nameOf(field), field.value])),
    pane: one("[data-pane-of]:not([hidden])", gate)?.dataset.paneOf,
  };
});
document.addEventListener("htmx:afterSwap", () => {
  const gate = draft && document.getElementById(draft.id);
  if (gate && digestOf(gate) === draft.digest) {
    for (const field of written(gate)) field.value = draft.fields.get(nameOf(field)) ?? field.value;
    for (const pane of all("[data-pane-of]", gate)) pane.hidden = pane.dataset.paneOf !== draft.pane;
    for (const button of all("[data-pane]", gate)) button.setAttribute("aria-expanded", String(button.dataset.pane === draft.pane));
  }
  draft = null;
});

tinykeys(window, {
  j: free(() => move(1)),
  k: free(() => move(-1)),
  a: onCard(approve),
  e: onCard(() => openPane("edit")),
  r: onCard(() => openPane("reject")),
  x: free(toggle),
  "$mod+Enter": submitPresent,
});

function settle() {
  const review = one("#review");
  const selected = review?.dataset.selected;
  for (const row of rows()) linkOf(row).toggleAttribute("aria-current", row.dataset.row === selected);
  for (const link of all("#queue a[aria-current]")) link.setAttribute("aria-current", "true");
  for (const gate of all("[data-gate]")) if (inView(one(".gate-head", gate))) gate.dataset.met = "yes";
  for (const gate of all("[data-long]")) { ends.disconnect(); ends.observe(one("[data-end]", gate)); }
  tellSelection();
}
document.addEventListener("htmx:afterSettle", (event) => {
  settle();
  // A new card begins at its top, and its title is told to those who listen.
  if (event.detail.target?.id === "review" || event.detail.elt?.id === "review") {
    const head = one("#detail .gate-head");
    if (head && !inView(head)) head.scrollIntoView({ block: "start" });
    if (document.activeElement === document.body && one("#queue a[aria-current]")) one("#queue a[aria-current]").focus({ preventScroll: true });
  }
});
settle();
