"use strict";
// Jest: what its command awaits holds every test, so no reporter is added, which would take the place of the usual ones.
// A run that it ends itself in the middle (`bail`) is cut short, and failed.

const { open, idOf, quietly } = require("./session.cjs");

const OUTCOMES = { passed: "passed", failed: "failed" };
const RUNS_NOTHING = ["showConfig", "clearCache", "listTests", "watch", "watchAll"];

function onLoad(core) {
  if (typeof core.runCLI !== "function" || typeof core.SearchSource !== "function") return undefined;
  const others = Object.getOwnPropertyDescriptors(core);
  return Object.defineProperties({}, { ...others, runCLI: { enumerable: true, value: heard(core.runCLI) } });
}

function heard(runCLI) {
  return async function (...given) {
    const runs = !RUNS_NOTHING.some((option) => given[0] && given[0][option]);
    const session = runs ? quietly(open)("jest") : undefined;
    const ended = await Reflect.apply(runCLI, this, given);
    if (session) tell(session, ended.results);
    return ended;
  };
}

const tell = quietly((session, results) => {
  for (const file of results.testResults) {
    for (const test of file.testResults) tellTest(session, file.testFilePath, test);
    const isItsTests = file.testResults.some((test) => test.status === "failed");
    const error = file.testExecError || (!isItsTests && file.failureMessage && { message: file.failureMessage });
    if (error) session.test(idOf(file.testFilePath, []), "failed", error.message || file.failureMessage);
  }
  if (!results.wasInterrupted) session.end(results.success ? 0 : 1);
});

function tellTest(session, file, test) {
  const outcome = test.failing && test.status === "passed" ? "xfailed" : OUTCOMES[test.status] || "skipped";
  session.test(idOf(file, [...test.ancestorTitles, test.title]), outcome, test.failureMessages[0], test.duration);
}

module.exports = { onLoad: quietly(onLoad) };
