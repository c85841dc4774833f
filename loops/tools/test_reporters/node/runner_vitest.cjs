"use strict";
// Vitest: a bundle of ES modules, whose names change with each version. The one that defines its runner hands it over
// while it is loaded; what the runner tells its reporters is heard here.

const path = require("path");
const Module = require("module");
const { pathToFileURL } = require("url");
const { open, idOf, quietly } = require("./session.cjs");
const { handing } = require("./vitest_source.cjs");

const ENDS = new Set(["onTestRunEnd", "onFinished"]); // since version 3, and until then
const told = new WeakSet();
const OUTCOMES = { pass: "passed", fail: "failed" };

/** In the process of its command alone. */
function watchRunner() {
  globalThis[Symbol.for("agentops.vitest")] = quietly(hear);
  if (Module.registerHooks) Module.registerHooks({ load: (url, context, next) => handing(url, next(url, context)) });
  else if (Module.register) Module.register(pathToFileURL(path.join(__dirname, "vitest_hooks.mjs")));
}

function hear({ prototype }) {
  open("vitest");
  const { report } = prototype;
  prototype.report = function (...given) {
    if (ENDS.has(given[0])) tell(this, given);
    return Reflect.apply(report, this, given);
  };
}

const tell = quietly((vitest, [event, , errors, reason]) => {
  if (event === "onFinished" && told.has(vitest)) return;
  told.add(vitest);
  const session = open("vitest");
  const files = vitest.state.getFiles();
  session.collected(files.flatMap((file) => testsOf(file).map(({ id }) => id)));
  for (const file of files) tellTasks(session, file);
  const unhandled = vitest.state.getUnhandledErrors ? vitest.state.getUnhandledErrors() : errors || [];
  for (const error of unhandled) session.test("unhandled error", "failed", error && error.message);
  const isFailed = unhandled.length > 0 || files.some((file) => file.result && file.result.state === "fail");
  if (reason !== "interrupted") session.end(isFailed ? 1 : 0);
});

function testsOf(file) {
  const inside = (task, names) =>
    task.type === "suite" ? task.tasks.flatMap((one) => inside(one, [...names, one.name])) : [{ task, id: idOf(file.filepath, names) }];
  return inside(file, file.projectName ? [`|${file.projectName}|`] : []);
}

function tellTasks(session, file) {
  for (const suite of suitesOf(file, [])) {
    const [error] = (suite.task.result && suite.task.result.errors) || [];
    if (error) session.test(idOf(file.filepath, suite.names), "failed", error.message);
  }
  for (const { task, id } of testsOf(file)) {
    const result = task.result || {};
    const isLeftOut = task.mode === "skip" || task.mode === "todo" || result.state === "skip";
    const outcome = isLeftOut ? "skipped" : OUTCOMES[result.state];
    const [error = {}] = result.errors || [];
    const isExpected = task.fails && outcome === "passed";
    if (outcome) session.test(id, isExpected ? "xfailed" : outcome, outcome === "failed" ? error.message : "", result.duration);
  }
}

/** A file by no name, so that one that cannot be loaded has the id of its path; the others by that of their hooks. */
function suitesOf(task, names) {
  const own = { task, names: names.length ? [...names, "hook"] : [] };
  const inside = task.tasks.filter((one) => one.type === "suite");
  return [own, ...inside.flatMap((one) => suitesOf(one, [...names, one.name]))];
}

module.exports = { watchRunner };
