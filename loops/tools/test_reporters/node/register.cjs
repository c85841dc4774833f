"use strict";
// Loaded by NODE_OPTIONS before anything else, in every process of Node: npm and build tools as well. So it only looks
// out for test runners, and nothing that goes wrong here may reach the program.

const Module = require("module");

const { env, argv, execArgv } = process;

/** The last part of what is required, and who looks whether it is a runner. */
const MODULES = new Map([
  ["node:test", "./runner_node_test.cjs"],
  ["mocha", "./runner_mocha.cjs"],
  ["mocha.js", "./runner_mocha.cjs"],
  ["mocha.cjs", "./runner_mocha.cjs"],
  ["results", "./runner_tape.cjs"],
  ["results.js", "./runner_tape.cjs"],
  ["core", "./runner_jest.cjs"],
]);

function install() {
  if (!env.AGENTOPS_TEST_REPORT) return;
  const isChildOfNodeTest = (env.NODE_TEST_CONTEXT || "").startsWith("child");
  // A thread exits by itself.
  if (isChildOfNodeTest && require("worker_threads").isMainThread) require("./runner_node_test.cjs").watchChild();
  // What the tests of a runner start reports nothing of its own.
  if (isChildOfNodeTest || env.AGENTOPS_TEST_SESSION) return;
  require("./runner_node_test.cjs").watchRunner(execArgv.includes("--test"));
  if (/(^|\/)vitest(\.mjs)?$/.test(argv[1] || "")) require("./runner_vitest.cjs").watchRunner();
  watchModules();
}

function watchModules() {
  const load = Module._load;
  Module._load = function (request, parent) {
    const exports = Reflect.apply(load, this, arguments);
    const reporter = typeof request === "string" && MODULES.get(request.slice(request.lastIndexOf("/") + 1));
    return (reporter && looked(reporter, exports, parent)) || exports;
  };
}

function looked(reporter, exports, parent) {
  try {
    return require(reporter).onLoad(exports, parent);
  } catch {
    return undefined;
  }
}

try {
  install();
} catch {
  // a run without a report
}
