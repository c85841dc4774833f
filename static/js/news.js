// Tells the parts of a page that something changed: at once, then not again for a while, and never without the last.
// (The throttle of hx-trigger drops what comes too soon, and with it the end of a story.)
const soon = new Map(); // name -> has anything happened since it was told

export function tell(name, between = 1000) {
  if (soon.has(name)) { soon.set(name, true); return; }
  document.body.dispatchEvent(new Event(name));
  soon.set(name, false);
  setTimeout(() => {
    const more = soon.get(name);
    soon.delete(name);
    if (more) tell(name, between);
  }, between);
}

// What a part hears while it is asking goes with it when the answer takes its place: who comes then asks once more.
const missed = new Set(); // ids
for (const name of ["queue-changed", "runs-changed"]) {
  document.body.addEventListener(name, () => {
    for (const part of document.querySelectorAll(`.htmx-request[hx-swap="outerHTML"][hx-trigger*="${name}"]`)) missed.add(part.id);
  });
}
document.addEventListener("htmx:afterSettle", (event) => {
  const part = event.target;
  if (missed.delete(part.id) && part.hasAttribute("hx-get")) window.htmx.ajax("GET", part.getAttribute("hx-get"), { source: part, target: part, swap: "outerHTML" });
});
