// Relative times and ticking durations, refreshed in place.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function ago(then, now = Date.now()) {
  const gap = (now - then) / 1000;
  if (Math.abs(gap) < 5) return "just now";
  if (Math.abs(gap) > 6 * 86400) return null; // the server's date stands
  const [size, unit] = UNITS.find(([seconds]) => Math.abs(gap) >= seconds);
  const amount = `${Math.floor(Math.abs(gap) / size)} ${unit}`;
  return gap < 0 ? `in ${amount}` : `${amount} ago`;
}

export function span(seconds) {
  const value = Math.max(seconds, 0);
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.floor(value)} s`;
  const whole = Math.floor(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${String(Math.floor(whole % 3600 / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole % 86400 / 3600)} h`;
}

function refresh() {
  for (const element of document.querySelectorAll("time[datetime]:not([data-exact])")) {
    const text = ago(Date.parse(element.dateTime));
    if (text && element.textContent !== text) element.textContent = text;
  }
}

function tick() {
  for (const element of document.querySelectorAll("[data-since]")) element.textContent = span((Date.now() - Number(element.dataset.since)) / 1000);
}

export function startTimes() {
  setInterval(refresh, 10_000);
  setInterval(tick, 500);
  tick();
}
