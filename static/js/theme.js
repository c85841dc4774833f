// Runs before the first paint, so that a dark room stays dark. Not a module: modules wait.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try { return localStorage.getItem("theme") || "system"; } catch { return "system"; }
  };
  const show = () => {
    const theme = chosen();
    const root = document.documentElement;
    root.dataset.theme = theme;
    root.classList.toggle("dark", theme === "dark" || (theme === "system" && dark.matches));
  };
  dark.addEventListener("change", show);
  window.addEventListener("storage", show);
  document.addEventListener("change", (event) => {
    const box = event.target.closest?.("[data-theme-switch]");
    if (!box) return;
    try { localStorage.setItem("theme", event.target.value); } catch { /* private mode: for this page only */ }
    show();
    mark();
  });
  const mark = () => {
    for (const input of document.querySelectorAll("[data-theme-switch] input")) input.checked = input.value === chosen();
  };
  document.addEventListener("DOMContentLoaded", mark);
  show();
})();
