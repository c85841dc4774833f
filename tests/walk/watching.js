// Runs in the page of a run before anything else: notes when each committed change was on the screen.
(() => {
  const seen = new Set();
  window.walk = { delays: [], streamed: new Set(), marker: Math.random() };
  const visible = (act) => requestAnimationFrame(() => setTimeout(act)); // after the frame that shows it was made
  const live = () => document.getElementById("live")?.dataset.state === "live";
  function look() {
    for (const spot of document.querySelectorAll(".streamed")) window.walk.streamed.add(spot.dataset.kind);
    for (const card of document.querySelectorAll("li[data-committed-at]:not([data-committed-at=''])")) {
      const at = Number(card.dataset.committedAt);
      const key = `${card.id} ${at}`;
      if (seen.has(key)) continue;
      seen.add(key);
      if (window.walk.since && at > window.walk.since) visible(() => window.walk.delays.push(Date.now() - at));
    }
    if (!window.walk.since && live()) window.walk.since = Date.now();
  }
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-committed-at", "data-state"] });
})();
