"use strict";
// The runner of Node: `node --test`, and `node:test` in a file. It has no hook for a reporter beside those of the command,
// so this listens to the stream that feeds all of them.

const path = require("path");
const EventEmitter = require("events");
const { open, idOf, quietly } = require("./session.cjs");

const RUNNER = "node:test";

/** In the process that people started: `isTest` if it is `node --test`, which runs each file in a process of its own. */
function watchRunner(isTest) {
  if (isTest) open(RUNNER);
  const live = new Set();
  eachStream((stream) => {
    const ancestors = [];
    let exit = 0;
    return (message) => {
      if (message === null) {
        if (live.delete(stream) && !live.size) open(RUNNER).end(exit);
        return;
      }
      live.add(stream); // hooks have streams, too, that carry nothing
      exit |= told(message, ancestors);
    };
  });
}

/** In the process of one file: `node --test` takes one that exits with 0 for passed, whatever did not run yet. */
function watchChild() {
  const live = new Set();
  let isBegun = false;
  eachStream((stream) => (message) => {
    isBegun = true;
    if (message === null) live.delete(stream);
    else live.add(stream);
  });
  const exit = process.reallyExit;
  process.reallyExit = function (...given) {
    if (live.size || !isBegun) cutShort();
    return Reflect.apply(exit, this, given);
  };
}

const cutShort = quietly(() => {
  const session = open(RUNNER);
  session.test(idOf(process.argv[1], []), "failed", "the process exited before its tests had ended");
  session.leave();
});

/** Only of a file that is run: a module of the project may want nothing but its mocks. */
function onLoad(exports, parent) {
  if (parent && parent.id === ".") open(RUNNER);
}

/** `hears(stream)` is what hears each of its messages, and null at its end. */
function eachStream(hears) {
  const { init } = EventEmitter;
  EventEmitter.init = function (...given) {
    if (this.constructor && this.constructor.name === "TestsStream") listen(this, quietly(hears(this)));
    return Reflect.apply(init, this, given);
  };
}

function listen(stream, hear) {
  const { push } = Object.getPrototypeOf(stream);
  stream.push = function (...given) {
    hear(given[0]);
    return Reflect.apply(push, this, given);
  };
}

/** 1 if it was a failure. */
function told({ type, data }, ancestors) {
  if (type === "test:start") {
    ancestors.length = data.nesting;
    ancestors.push(data);
  }
  if (type !== "test:pass" && type !== "test:fail") return 0;
  const isPass = type === "test:pass";
  const { details = {}, nesting, name } = data;
  const names = [...ancestors.slice(0, nesting).map((ancestor) => ancestor.name), name];
  const file = (ancestors[0] || data).file || process.argv[1];
  const error = details.error || {};
  const isFile = nesting === 0 && path.resolve(name) === path.resolve(file);
  if (isFile && !isPass) open(RUNNER).test(idOf(file, []), "failed", messageOf(error));
  else if (details.type === "suite" && !isPass && error.failureType !== "subtestsFailed")
    open(RUNNER).test(idOf(file, [...names, hookOf(error)]), "failed", messageOf(error));
  else if (details.type !== "suite" && !isFile) {
    open(RUNNER).test(idOf(file, names), outcomeOf(data, isPass), isPass ? "" : messageOf(error), details.duration_ms);
  }
  return Number(!isPass && !isSet(data.todo));
}

function outcomeOf({ skip, todo }, isPass) {
  if (isSet(skip)) return "skipped";
  if (isSet(todo)) return isPass ? "skipped" : "xfailed";
  return isPass ? "passed" : "failed";
}

const isSet = (directive) => directive !== undefined && directive !== false;
const messageOf = (error) => (error.cause && error.cause.message) || error.cause || error.message;
const hookOf = (error) => (/failed running (\w+) hook/.exec(error.message) || ["", "suite"])[1];

module.exports = { watchRunner, watchChild, onLoad: quietly(onLoad) };
