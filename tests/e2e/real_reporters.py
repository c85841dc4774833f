"""Mocha, tape, Jest and Vitest as they are published report each test: ``make reporters`` (SPEC L1).

By hand and before a release: it needs the registry. One runner is not well reported any more if a test of it fails; its
runs are without a report, or cut short, until ours follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.node_packages import npm
from tests.report_listener import Heard, hear

pytestmark = pytest.mark.spec("L1")
SUITE = """
describe("suite", () => {
  it("same", () => {}); it("same", () => {}); it.skip("left out", () => {});
  it("fails", () => { throw new Error("no\\nmore"); });
  describe("shut", () => { BEFORE(() => { throw new Error("no base"); }); it("never", () => {}); });
});
"""
TAPE = """
const test = require("tape");
test("same", (t) => t.end()); test("same", (t) => t.end()); test("left out", { skip: true }, (t) => t.end());
test("fails", (t) => { t.equal(1, 2, "no"); t.end(); });
test("outer", (t) => { t.test("inner", (inner) => inner.end()); t.end(); });
"""
GLOBALS = 'import { describe, it, beforeAll } from "vitest";\n'
EXITS = 'it("a", () => {}); it("b", () => process.exit(0)); it("c", () => {});'
TAPE_EXITS = (
    'const it = require("tape"); it("a", (t) => t.end()); it("b", () => process.exit(0)); it("c", (t) => t.end());'
)
SAME = {"suite > same": "passed", "suite > same #2": "passed", "suite > left out": "skipped", "suite > fails": "failed"}
HOOK_OF_MOCHA_2 = {'suite > shut > "before all" hook for "fails"': "failed"}  # the test before it, in its own words
HOOK_OF_MOCHA = {'suite > shut > "before all" hook for "never"': "failed"}


@dataclass(frozen=True)
class Runner:
    """``exits`` is empty where the runner itself keeps tests from ending its process."""

    package: str
    command: tuple[str, ...]
    suite: str
    exits: str
    outcomes: dict[str, str]
    parallel: tuple[str, ...] = ()


JEST = SUITE.replace("BEFORE", "beforeAll")
OF_JEST = SAME | {"suite > shut > never": "failed"}
OF_TAPE = {"same": "passed", "same #2": "passed", "left out": "skipped", "fails": "failed"}
RUNNERS = (
    Runner("mocha@12.0.3", ("mocha",), SUITE.replace("BEFORE", "before"), EXITS, SAME | HOOK_OF_MOCHA, ("--parallel",)),
    Runner("mocha@10.8.2", ("mocha",), SUITE.replace("BEFORE", "before"), EXITS, SAME | HOOK_OF_MOCHA, ("--parallel",)),
    Runner("mocha@2.5.3", ("mocha",), SUITE.replace("BEFORE", "before"), EXITS, SAME | HOOK_OF_MOCHA_2),
    Runner("tape@5.10.2", ("tape",), TAPE, TAPE_EXITS, OF_TAPE | {"outer": "passed", "outer > inner": "passed"}),
    Runner("jest@30.5.2", ("jest",), JEST, EXITS, OF_JEST, ("--workerThreads",)),
    Runner("jest@29.7.0", ("jest",), JEST, EXITS, OF_JEST),
    Runner(
        "vitest@3.2.7",
        ("vitest", "run"),
        GLOBALS + JEST,
        "",
        SAME | {"suite > shut > never": "skipped", "suite > shut > hook": "failed"},
        ("--pool=threads",),
    ),
)


@pytest.fixture(scope="module", params=RUNNERS, ids=lambda runner: runner.package)
def runner(request: pytest.FixtureRequest) -> Runner:
    return request.param


@pytest.fixture(scope="module")
def project(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"name": "project", "private": true}')
    npm(folder, "install", runner.package)
    (folder / "all.test.js").write_text(runner.suite)
    (folder / "exits.test.js").write_text(runner.exits)
    return folder


def asked(runner: Runner, project: Path, place: Path, *words: str) -> Heard:
    return hear(["npx", *runner.command, *words], project, place)


def test_every_test_is_reported(runner: Runner, project: Path, tmp_path: Path) -> None:
    for options in [(), runner.parallel] if runner.parallel else [()]:
        found = asked(runner, project, tmp_path, *options, "all.test.js")
        assert found.outcomes == {f"all.test.js::{name}": outcome for name, outcome in runner.outcomes.items()}
        assert found.ends == [1]


def test_an_exit_in_the_middle_leaves_no_end(runner: Runner, project: Path, tmp_path: Path) -> None:
    if runner.exits:
        assert asked(runner, project, tmp_path, "exits.test.js").ends == [None]


def test_asking_for_the_version_opens_no_connection(runner: Runner, project: Path, tmp_path: Path) -> None:
    found = hear(["npx", runner.command[0], "--version"], project, tmp_path)
    assert not found.sessions or runner.command == ("tape",), "tape has no such option"
