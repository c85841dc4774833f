"use strict";
// One connection to AgentOps for each runner of this process. Lines are written at once and in order, so that all of
// them are there however the process ends; a connection that closes without "end" is a session that was cut short.

// Taken now: tests replace them.
const { writeSync } = require("fs");
const path = require("path");
const { fileURLToPath } = require("url");
const folder = process.cwd();
const address = process.env.AGENTOPS_TEST_REPORT;
const { stringify } = JSON;

const LONGEST_ID = 2000;
const LONGEST_MESSAGE = 300;
const CHARACTERS_IN_A_LINE = 10_000; // of ids: a line has at most 64 KB, and a character takes up to six bytes
const PATIENCE_MS = 5000; // with a listener that does not read

const sessions = new Map();

class Session {
  constructor(runner) {
    this.runner = runner;
    this.seen = { collected: namesOf(), ended: namesOf() };
    this.socket = connect();
    this.descriptor = this.socket._handle ? this.socket._handle.fd : -1;
    this.send({ event: "start", v: 1, runner, pid: process.pid });
    process.env.AGENTOPS_TEST_SESSION = String(process.pid);
  }

  collected(ids, deselected = []) {
    for (const tests of inLines(ids.map((id) => this.unique("collected", id))))
      this.send({ event: "collected", tests, deselected: [] });
    for (const left of inLines(deselected)) this.send({ event: "collected", tests: [], deselected: left });
  }

  test(id, outcome, message, milliseconds) {
    const seconds = Math.round(milliseconds || 0) / 1000;
    this.send({ event: "test", id: this.unique("ended", id), outcome, message: firstLine(message), seconds });
  }

  /** Only once the runner itself says that it is done: `process.exit` in the middle is no end. */
  end(exit) {
    this.send({ event: "end", exit });
    this.leave();
  }

  leave() {
    this.close();
    sessions.delete(this.runner);
  }

  close() {
    if (this.socket) this.socket.destroy();
    this.socket = null;
  }

  /** A test may be called what another one gets for having the same name. */
  unique(list, id) {
    const { counts, taken } = this.seen[list];
    const short = (id || ".").slice(0, LONGEST_ID);
    let count = counts.get(short) || 0;
    let name;
    do name = ++count === 1 ? short : `${short} #${count}`;
    while (taken.has(name));
    counts.set(short, count);
    taken.add(name);
    return name;
  }

  /** What could not be written leaves the session without an end. */
  send(event) {
    if (this.isOpen() && !written(this.descriptor, Buffer.from(`${stringify(event)}\n`))) this.close();
  }

  /** The number of a descriptor is another file's once ours is closed. */
  isOpen() {
    return Boolean(this.socket && this.socket._handle);
  }
}

const namesOf = () => ({ counts: new Map(), taken: new Set() });

function connect() {
  const socket = new (require("net").Socket)();
  socket.on("error", () => {});
  socket.connect(address); // of a socket of Unix at once
  socket.unref();
  return socket;
}

function written(descriptor, bytes) {
  const latest = Date.now() + PATIENCE_MS;
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(descriptor, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN" || Date.now() > latest) return false;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
  return true;
}

function* inLines(ids) {
  let line = [];
  let length = 0;
  for (const id of ids) {
    if (length + id.length > CHARACTERS_IN_A_LINE) {
      yield line;
      [line, length] = [[], 0];
    }
    line.push(id);
    length += id.length + 3;
  }
  if (line.length) yield line;
}

function firstLine(message) {
  // eslint-disable-next-line no-control-regex
  const plain = String(message || "").replace(/\u001b\[[0-9;]*m/g, "");
  return (plain.split("\n").find((line) => line.trim()) || "").trim().slice(0, LONGEST_MESSAGE);
}

/** The open session of a runner; begins it where there is none. */
function open(runner) {
  if (!sessions.has(runner)) sessions.set(runner, new Session(runner));
  return sessions.get(runner);
}

/** Stable between two runs of the same tree. */
function idOf(file, names) {
  const plain = file && file.startsWith("file:") ? fileURLToPath(file) : file;
  const place = plain ? path.relative(folder, path.resolve(folder, plain)) : "";
  // eslint-disable-next-line no-control-regex
  return (names.length ? `${place}::${names.join(" > ")}` : place).replace(/[\u0000-\u001f\u007f]+/g, " ");
}

/** What the reporters do between the lines of a runner: a mistake of ours costs the report, never the run. */
function quietly(work) {
  return function (...given) {
    try {
      return Reflect.apply(work, this, given);
    } catch {
      return undefined;
    }
  };
}

module.exports = { open, idOf, quietly };
