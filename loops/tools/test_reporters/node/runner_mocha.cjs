"use strict";
// Mocha, in one process or in parallel: its workers hand what they find to the runner of the process that started them.

const { open, idOf, quietly } = require("./session.cjs");

/** What the command calls first, once it is sure that this process runs the tests, and before it loads a file of them. */
const BEGINS = ["loadFiles", "loadFilesAsync", "run"];
const heard = new WeakSet();

function onLoad(Mocha) {
  const { prototype } = Mocha;
  if (typeof Mocha.Runner !== "function" || typeof prototype.run !== "function" || heard.has(prototype)) return;
  heard.add(prototype);
  for (const name of BEGINS) {
    const begin = prototype[name];
    prototype[name] = function (...given) {
      quietly(open)("mocha");
      const answer = Reflect.apply(begin, this, given);
      if (name === "run") listen(answer, this);
      return answer;
    };
  }
}

const listen = quietly((runner, mocha) => {
  const session = open("mocha");
  const isDry = Boolean(mocha.options && mocha.options.dryRun);
  const tell = (runnable, outcome, error) =>
    session.test(idOfRunnable(runnable), isDry ? "skipped" : outcome, error && error.message, runnable.duration);
  const all = testsOf(runner.suite);
  const begin = quietly(() => tellCollected(session, runner, all));
  if (runner.started) begin(); // before version 4 it starts before it is handed out
  else runner.once("start", begin);
  runner.on("pass", quietly((test) => tell(test, "passed")));
  runner.on("pending", quietly((test) => tell(test, "skipped")));
  runner.on("fail", quietly((runnable, error) => tell(runnable, "failed", error)));
  runner.prependListener("end", quietly(() => session.end(runner.failures ? 1 : 0)));
});

/** `all` are those before `only` left some out; in parallel they are known to the workers alone. */
function tellCollected(session, runner, all) {
  const left = new Set(testsOf(runner.suite).filter((test) => isAsked(runner, test)));
  const deselected = all.filter((test) => !left.has(test));
  if (all.length) session.collected([...left].map(idOfRunnable), deselected.map(idOfRunnable));
}

const isAsked = (runner, test) => !runner._grep || runner._grep.test(test.fullTitle()) !== Boolean(runner._invert);
const testsOf = (suite) => [...suite.tests, ...suite.suites.flatMap(testsOf)];
const idOfRunnable = (runnable) => idOf(fileOf(runnable), runnable.titlePath ? runnable.titlePath() : titlesOf(runnable));
/** Before version 4. */
const titlesOf = (one) => (one.parent ? [...titlesOf(one.parent), one.title] : []);

/** A hook knows its file by its suite. */
function fileOf(runnable) {
  return runnable.file || (runnable.parent ? fileOf(runnable.parent) : "");
}

module.exports = { onLoad: quietly(onLoad) };
