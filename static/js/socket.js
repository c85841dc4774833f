// A socket that comes back: backoff with jitter, a heartbeat each way, and a badge that is right within a second.
const BEAT = 1000;
const LATE = 1000; // no answer to a ping for this long: stale
const DEAD = 6000; // for this long: hang up and dial again
const LONGEST = 60000; // a server that answers late has more time: a new line costs it more than the answer it owes
const DENIED = new Set([4401, 4403, 4404]);
const TOO_MUCH = new Set([4008, 4009, 4029]); // said too much, or has too many open: dial again, and not soon
const FAILED = new Set([1009, 4011]); // what the page has missed cannot be told: it will not be the next time either
const TRIES = 5; // that fail so, one after the other, before the page says so and dials seldom
const STANDS = 5000; // a line that lasted for this long is no failure of the one before
const BROKEN = "This page is not live: the server could not send what happened since. Reload it.";

const WORDS = { live: "Live", reconnecting: "Reconnecting", stale: "Stale", off: "Not live" };

const LOST = 4000; // a line that is away for longer is worth a sentence: what is on the page may be old
let lost;

export function badge(state) {
  const element = document.getElementById("live");
  if (!element || element.dataset.state === state) return;
  element.dataset.state = state;
  element.querySelector(".live-word").textContent = WORDS[state];
  const sentence = document.getElementById("lost");
  if (!sentence || state === "stale") return;
  clearTimeout(lost);
  if (state === "reconnecting") lost = setTimeout(() => { sentence.hidden = false; }, LOST);
  else sentence.hidden = true;
}

// The sentence for a line that is away: the page's own, or why the server has none for it.
function say(words) {
  const sentence = document.getElementById("lost");
  if (!sentence) return;
  sentence.dataset.own ??= sentence.textContent;
  const said = words ?? sentence.dataset.own;
  if (sentence.textContent !== said) sentence.textContent = said;
}

export class Socket {
  constructor(address, { onFrame, query = () => "" }) {
    this.address = address;
    this.onFrame = onFrame;
    this.query = query;
    this.got = 0;
    this.failures = 0;
    this.broken = 0;
    this.patience = DEAD;
    this.dial();
    window.addEventListener("online", () => this.again(0));
    window.addEventListener("pagehide", () => { this.over = true; this.ws?.close(1000); });
    window.addEventListener("pageshow", (event) => { if (event.persisted) { this.over = false; this.again(0); } });
  }

  dial() {
    clearTimeout(this.timer);
    clearInterval(this.beat);
    this.got = 0;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const ws = new WebSocket(`${scheme}://${location.host}${this.address}${this.query()}`);
    this.ws = ws;
    ws.onopen = () => this.opened(ws);
    ws.onmessage = (event) => this.received(ws, event);
    ws.onclose = (event) => { if (ws === this.ws) this.closed(event); };
  }

  opened(ws) {
    // The first answer, not the open line, means that we are being told: the server answers once it watches for us.
    this.since = performance.now();
    this.beat = setInterval(() => this.check(ws), BEAT / 4);
    this.ping(ws);
  }

  ping(ws) {
    this.asked = performance.now();
    this.waiting = true;
    ws.send(JSON.stringify({ t: "ping", got: this.got }));
  }

  check(ws) {
    if (ws !== this.ws || ws.readyState !== WebSocket.OPEN) return;
    const now = performance.now();
    if (this.waiting && now - this.asked > LATE) badge("stale");
    if (this.waiting && now - this.asked > this.patience) {
      this.patience = Math.min(2 * this.patience, LONGEST);
      this.ws = null;
      ws.close();
      this.again(0);
      return;
    }
    if (!this.waiting && now - this.asked >= BEAT) this.ping(ws);
  }

  received(ws, event) {
    if (ws !== this.ws) return;
    const frame = JSON.parse(event.data);
    if (frame.t === "refused") { say(frame.text); return; }
    if (frame.t !== "pong" || performance.now() - this.since > STANDS) this.failures = this.broken = 0;
    if (frame.t === "pong") {
      this.waiting = false;
      this.patience = Math.min(Math.max(DEAD, 3 * (performance.now() - this.asked)), LONGEST);
      if (this.broken < TRIES) { say(); badge("live"); }
      return;
    }
    this.got += 1;
    this.onFrame(frame);
  }

  closed(event) {
    clearInterval(this.beat);
    if (this.over) return;
    if (event.code === 4401 || event.code === 4404) { badge("off"); this.denied?.(event.code); return; }
    if (FAILED.has(event.code) && ++this.broken >= TRIES) {
      say(BROKEN);
      document.getElementById("lost")?.removeAttribute("hidden");
      this.again(8, 60000);
      return;
    }
    this.again(DENIED.has(event.code) ? 5 : TOO_MUCH.has(event.code) ? 6 : ++this.failures);
  }

  again(failures, most = 8000) {
    if (this.over) return;
    badge("reconnecting");
    clearTimeout(this.timer);
    const wait = failures ? Math.min(250 * 2 ** (failures - 1), most) * (0.7 + Math.random() * 0.6) : 0;
    this.timer = setTimeout(() => this.dial(), wait);
  }
}
