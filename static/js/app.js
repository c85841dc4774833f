// Everything every page needs: keys, palette, fresh times, honest buttons, the live badge.
import { tinykeys } from "../vendor/tinykeys@3.1.0/tinykeys.module.js";
import { watchQueue } from "./queue.js";
import { startTimes } from "./times.js";

const go = (path) => () => { window.location.href = path; };
const typing = () => {
  const at = document.activeElement;
  return at && (at.isContentEditable || ["TEXTAREA", "SELECT"].includes(at.tagName)
    || (at.tagName === "INPUT" && !["checkbox", "radio", "button", "submit"].includes(at.type)));
};
const whenFree = (act) => (event) => {
  if (typing() || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  act(event);
};

function open(id) {
  const dialog = document.getElementById(id);
  if (!dialog || dialog.open) return;
  dialog.showModal();
  if (id !== "palette") return;
  const input = dialog.querySelector("input");
  input.value = "";
  input.focus();
  document.body.dispatchEvent(new Event("find-open"));
}

function focusSearch() {
  const field = document.querySelector("main [data-search], main input[type=search]");
  if (field) field.focus(); else open("palette");
}

tinykeys(window, {
  "g o": whenFree(go("/")),
  "g r": whenFree(go("/review/")),
  "g u": whenFree(go("/runs/")),
  "g t": whenFree(go("/tasks/new/")),
  "g s": whenFree(go("/system/")),
  "/": whenFree(focusSearch),
  "Shift+?": whenFree(() => open("keys")),
  "?": whenFree(() => open("keys")), // where it takes no Shift
  "$mod+k": (event) => { event.preventDefault(); open("palette"); },
});

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener) open(opener.dataset.open);
  if (event.target.matches("dialog.sheet")) event.target.close();
  const copier = event.target.closest("[data-copy-near]");
  if (copier) copy(copier.parentElement.querySelector("pre, code").textContent);
});

// Arrow keys walk the palette; Enter on the field follows the first hit.
document.getElementById("palette")?.addEventListener("keydown", (event) => {
  const links = [...event.currentTarget.querySelectorAll("#found a")];
  if (!["ArrowDown", "ArrowUp", "Enter"].includes(event.key) || !links.length) return;
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter" && at >= 0) return;
  event.preventDefault();
  if (event.key === "Enter") links[0].click();
  else links[(at + (event.key === "ArrowDown" ? 1 : links.length - 1) + (at < 0 && event.key === "ArrowUp" ? 1 : 0)) % links.length].focus();
});

// htmx: the token rides in a header; a failed request says so and leaves the page as it was.
document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRFToken"] = document.querySelector("meta[name=csrf-token]").content;
});
document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  const said = decodeURIComponent(event.detail.xhr.getResponseHeader("X-Message") ?? "");
  toast(said || (status === 403 ? "Permission denied. Reload the page; if that does not help, ask an admin of the project." : status === 404 ? "Not found, or you have no access to it. Reload the page." : `The server answered ${status}. Try again.`), "error");
});
document.addEventListener("htmx:sendError", () => toast("No connection. Nothing was changed; try again.", "error"));
document.addEventListener("htmx:timeout", () => toast("The server took too long. Reload to see what happened.", "error"));
document.addEventListener("htmx:beforeSwap", (event) => {
  // 422 carries a form with its errors, 409 what somebody else did meanwhile: both belong on the page.
  if ([409, 422].includes(event.detail.xhr.status)) { event.detail.shouldSwap = true; event.detail.isError = false; }
});
document.addEventListener("say", (event) => toast(event.detail.value ?? event.detail.text, event.detail.look));

// Plain forms: a second press must not submit twice.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog" || form.hasAttribute("hx-post") || event.defaultPrevented) return;
  for (const button of form.querySelectorAll("button:not([type=button])")) setTimeout(() => { button.disabled = true; });
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const button of document.querySelectorAll("form button:disabled")) button.disabled = false;
});

// Without https a browser offers no clipboard: then the text is at least selected by hand.
function copy(text) {
  if (!navigator.clipboard) { toast("This browser copies only over https. Select the text and press Ctrl C.", "error"); return; }
  navigator.clipboard.writeText(text).then(() => toast("Copied"), () => toast("Not copied: the browser does not allow it. Select the text and press Ctrl C.", "error"));
}

export function toast(text, look = "info") {
  const line = document.createElement("p");
  line.className = "toast";
  line.dataset.look = look;
  line.textContent = text;
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), look === "error" ? 9000 : 4000);
}

// The tab says how many decisions wait, in its title and on its icon.
const FAVICON = (count) => `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#1f5f8b"/><text x="16" y="23.5" text-anchor="middle" font-family="sans-serif" font-weight="700" font-size="${count > 9 ? 18 : 22}" fill="#fff">${count > 99 ? "99" : count}</text></svg>`)}`;
const icon = document.getElementById("favicon");
const plain = icon?.href;
function tellTab() {
  const count = parseInt(document.getElementById("review-badge")?.textContent ?? "", 10) || 0;
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = count ? `(${count}) ${title}` : title;
  if (icon) icon.href = count ? FAVICON(count) : plain;
}
document.addEventListener("htmx:afterSettle", tellTab);
tellTab();

startTimes();
if (document.body.dataset.socket && !document.querySelector("[data-run-socket]")) watchQueue(document.body.dataset.socket);

// What a person ticked or opened stays so when a list is refreshed under them.
document.addEventListener("DOMContentLoaded", keepChoices);
if (document.readyState !== "loading") keepChoices();
function keepChoices() {
  if (!window.Idiomorph) return;
  window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(
    (name === "checked" && node.hasAttribute("data-keep-checked")) || (name === "open" && node.tagName === "DETAILS"));
}

// A form that is used again is emptied when it was sent, but not of what somebody has begun to write meanwhile.
const sent = new WeakMap();
document.addEventListener("htmx:beforeSend", (event) => {
  if (event.target.matches("form[data-reset]")) sent.set(event.target, String(new URLSearchParams(new FormData(event.target))));
});
document.addEventListener("htmx:afterRequest", (event) => {
  const form = event.target;
  if (event.detail.successful && event.detail.xhr.status < 400 && form.matches("form[data-reset]") && sent.get(form) === String(new URLSearchParams(new FormData(form)))) form.reset();
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-back]") && history.length > 1) { event.preventDefault(); history.back(); }
});
