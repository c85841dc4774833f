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
