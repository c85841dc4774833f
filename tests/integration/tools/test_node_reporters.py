"""The runner of Node reports each test over a socket, and shows people what it always showed (SPEC L1)."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report_listener import NODE_REPORTERS, Heard, environment, hear, run

pytestmark = pytest.mark.spec("L1")
TESTS = """
const { test, describe, it, before, after } = require("node:test");
test("same", () => {}); test("same", () => {}); test("same #2", () => {});
test("left out", { skip: "not here" }, () => {}); test.todo("to do", () => { throw new Error("not yet"); });
test("outer", async (t) => { await t.test("inner", () => {}); });
describe("suite", () => { describe("deep", () => { it("fails", () => { throw new Error("no\\nmore"); }); }); });
describe("shut", () => { before(() => { throw new Error("no base"); }); it("never", () => {}); });
describe("left", () => { after(() => { throw new Error("no end"); }); it("fine", () => {}); });
"""
OUTCOMES = {
    "same": "passed",
    "same #2": "passed",
    "same #2 #2": "passed",
    "left out": "skipped",
    "to do": "xfailed",
    "outer > inner": "passed",
    "outer": "passed",
    "suite > deep > fails": "failed",
    "shut > never": "failed",
    "shut > before": "failed",
    "left > fine": "passed",
    "left > after": "failed",
}
EXITS = (
    'const { test } = require("node:test"); test("a", () => {}); test("b", () => process.exit(0)); test("c", () => {});'
)
GOOD = 'const { test } = require("node:test"); test("good", () => {});'
THREADS = """
const { test } = require("node:test"), { Worker } = require("worker_threads");
test("waits for a thread", (t, done) => { new Worker("process.exit(0)", { eval: true }).on("exit", () => done()); });
"""
NESTED = """
const { test } = require("node:test");
test("starts a runner", () => {
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  require("child_process").spawnSync(process.execPath, ["--test", "fixtures/bad.js"], { env });
});
"""


@pytest.fixture(scope="session")
def node() -> str:
    if found := shutil.which("node"):
        return found
    missing = "no Node: install nodejs"
    return pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "fixtures").mkdir(parents=True)
    for name, text in (
        ("all.js", TESTS),
        ("exits.js", EXITS),
        ("good.js", GOOD),
        ("nested.js", NESTED),
        ("plain.js", 'console.log("no test")'),
        ("leaves.js", 'require("./away.js"); require("node:test").test("late", () => {});'),
        ("away.js", "process.exit(0);"),
        ("module.mjs", 'import { test } from "node:test"; test("of a module", () => {});'),
        ("threads.js", THREADS),
        ("mocks.js", 'require("./wants_mocks.js"); console.log("no test")'),
        ("wants_mocks.js", 'require("node:test").mock.fn();'),
        ("fixtures/bad.js", 'require("node:test").test("bad", () => { throw new Error("wanted"); });'),
    ):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def heard(node: str, project: Path, tmp_path: Path) -> Callable[..., Heard]:
    def call(*words: str, reporters: Path = NODE_REPORTERS) -> Heard:
        return hear([node, *words], project, tmp_path, reporters)

    return call


@pytest.mark.parametrize("words", [("--test", "all.js"), ("all.js",)], ids=["runner", "file"])
def test_every_test_is_reported_with_what_became_of_it(heard: Callable[..., Heard], words: tuple[str, ...]) -> None:
    found = heard(*words)
    assert found.outcomes == {f"all.js::{name}": outcome for name, outcome in OUTCOMES.items()}
    assert found.ends == [1] == [found.done.returncode]
    assert found.messages["all.js::suite > deep > fails"] == "no"
    assert found.messages["all.js::shut > before"] == "no base"


def test_files_of_a_run_are_one_session(heard: Callable[..., Heard]) -> None:
    found = heard("--test", "good.js", "module.mjs", "plain.js")
    assert found.outcomes == {"good.js::good": "passed", "module.mjs::of a module": "passed"}
    assert found.ends == [0]


@pytest.mark.parametrize("words", [("--test", "exits.js", "good.js"), ("exits.js",)], ids=["runner", "file"])
def test_a_process_that_exits_in_the_middle_of_its_tests_is_cut_short(
    heard: Callable[..., Heard], words: tuple[str, ...]
) -> None:
    found = heard(*words)
    assert found.done.returncode == 0, "to Node, it passed"
    assert None in found.ends


def test_a_file_that_exits_before_its_first_test_is_cut_short(heard: Callable[..., Heard]) -> None:
    found = heard("--test", "leaves.js", "good.js")
    assert found.done.returncode == 0
    assert sorted(found.ends, key=str) == [0, None]
    assert found.outcomes["leaves.js"] == "failed"


@pytest.mark.parametrize("words", [("--test", "threads.js"), ("threads.js",)], ids=["runner", "file"])
def test_a_thread_that_exits_is_no_process(heard: Callable[..., Heard], words: tuple[str, ...]) -> None:
    found = heard(*words)
    assert (found.outcomes, found.ends) == ({"threads.js::waits for a thread": "passed"}, [0])


def test_what_the_tests_start_reports_nothing_of_its_own(heard: Callable[..., Heard]) -> None:
    assert heard("nested.js").outcomes == {"nested.js::starts a runner": "passed"}


@pytest.mark.parametrize("words", [("plain.js",), ("mocks.js",), ("-e", "1"), ("--version",)], ids=" ".join)
def test_a_process_without_tests_opens_no_connection(heard: Callable[..., Heard], words: tuple[str, ...]) -> None:
    found = heard(*words)
    assert (found.done.returncode, found.sessions) == (0, [])


@pytest.mark.parametrize(
    "words", [("--test", "all.js", "good.js"), ("all.js",), ("good.js",), ("plain.js",)], ids=" ".join
)
@pytest.mark.parametrize("listener", ["gone", "none", "deaf", "heard"])
def test_people_see_what_they_always_saw(
    node: str, project: Path, tmp_path: Path, words: tuple[str, ...], listener: str
) -> None:
    alone = run([node, *words], project, {**os.environ, "NODE_OPTIONS": ""})
    if listener == "heard":
        done = hear([node, *words], project, tmp_path).done
    else:
        address = tmp_path / ("none" if listener == "none" else "socket")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "socket"))
            server.listen(1)
            if listener == "gone":
                server.close()
            done = run([node, *words], project, environment(address))
    assert done.returncode == alone.returncode
    assert (_without_times(done.stdout), done.stderr) == (_without_times(alone.stdout), alone.stderr)


LINES = {
    "runner_node_test.cjs: if (live.size || !isBegun) cutShort();": ("--test", "exits.js"),
    "register.cjs: if (isChildOfNodeTest || env.AGENTOPS_TEST_SESSION) return;": ("--test", "good.js"),
    'runner_node_test.cjs: details.type !== "suite" && !isFile': ("--test", "plain.js", "good.js"),
    "runner_node_test.cjs: live.add(stream); //": ("all.js",),
    "session.cjs: while (taken.has(name));": ("all.js",),
}
"""A line that keeps a report true -> a run that it is needed for."""
WITHOUT = {'details.type !== "suite" && !isFile': "true", "while (taken.has(name));": "while (false);"}


@pytest.mark.parametrize("line", LINES)
def test_without_a_line_that_keeps_it_true_a_report_is_another(
    heard: Callable[..., Heard], tmp_path: Path, line: str
) -> None:
    name, text = line.split(": ", 1)
    broken = tmp_path / "reporters/node"
    shutil.copytree(NODE_REPORTERS, broken)
    source = (broken / name).read_text()
    assert source.count(text) == 1
    (broken / name).write_text(source.replace(text, WITHOUT.get(text, "//" if text.endswith("//") else "")))
    assert _said(heard(*LINES[line])) != _said(heard(*LINES[line], reporters=broken))


def _said(found: Heard) -> list[list[tuple[object, ...]]]:
    keys = ("event", "id", "outcome", "exit")
    return sorted([tuple(event.get(key) for key in keys) for event in session] for session in found.sessions)


def _without_times(text: str) -> str:
    """And without the frames of Node itself: how many a stack has of them, the scheduler decides."""
    ours = "\n".join(line for line in text.splitlines() if "node:internal" not in line)
    return re.sub(r"\b\d+(\.\d+)?(ms)?\b", "0", ours)
