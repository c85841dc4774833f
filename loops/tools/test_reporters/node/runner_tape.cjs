"use strict";
// Tape: a test is what `test` was called for, failed if one of its assertions failed.

const path = require("path");
const { fileURLToPath } = require("url");
const { open, idOf, quietly } = require("./session.cjs");

const live = new Set(); // results of harnesses whose tests go on
const heard = new WeakSet();
let exit = 0;

function onLoad(Results, parent) {
  const { prototype } = Results;
  if (typeof Results !== "function" || !prototype.createStream || !prototype._watch || heard.has(prototype)) return;
  heard.add(prototype);
  const own = path.dirname(parent.filename) + path.sep;
  open("tape");
  const { emit } = prototype;
  const hear = quietly(hears);
  prototype.emit = function (...given) {
    hear(this, given, own);
    return Reflect.apply(emit, this, given);
  };
}

function hears(results, [event, test], own) {
  if (event === "_push") {
    live.add(results);
    results.heard = [...(results.heard || []), watch(test, callerOutside(own), [])];
  } else if (event === "done") {
    const tests = results.heard || [];
    const ids = (isOver) => tests.filter((one) => one.isOver === isOver).map((one) => one.id);
    open("tape").collected(ids(true), ids(false)); // `only` leaves out the others
    live.delete(results);
    if (!live.size) open("tape").end(exit);
  }
}

function watch(test, file, above) {
  const names = [...above, test.name];
  const seen = { id: idOf(file, names), isOver: false };
  let failure = null;
  let began = Date.now();
  test.once("prerun", () => (began = Date.now()));
  test.on("test", quietly((inner) => watch(inner, file, names)));
  test.on("result", quietly((result) => {
    if (typeof result === "string" || result.ok) return;
    failure = failure || result;
    if (!result.todo) exit = 1;
  }));
  test.once("end", quietly(() => {
    seen.isOver = true;
    open("tape").test(seen.id, outcomeOf(test, failure), failure && failure.name, Date.now() - began);
  }));
  return seen;
}

function outcomeOf(test, failure) {
  if (test._skip) return "skipped";
  if (test._todo) return failure ? "xfailed" : "skipped";
  return failure && !failure.todo ? "failed" : failure ? "xfailed" : "passed";
}

/** The file that called tape. */
function callerOutside(own) {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 20;
    Error.prepareStackTrace = (_, sites) => sites.map((site) => site.getFileName() || "");
    const files = new Error().stack.map((name) => (name.startsWith("file:") ? fileURLToPath(name) : name));
    return files.find((name) => path.isAbsolute(name) && !name.startsWith(own) && !name.startsWith(__dirname)) || "";
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  }
}

module.exports = { onLoad: quietly(onLoad) };
