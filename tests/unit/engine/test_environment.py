"""What surrounds the work and fails is no failure of the work: a person is asked, and no repair is spent (SPEC E1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.apply import apply
from loops.engine.encoding.replace import evolve
from loops.engine.ends.reasons import EXPLANATIONS
from loops.engine.failures.classify import classify
from loops.engine.rollback import plan as rb
from loops.engine.state.failure import Failure, Source
from loops.engine.state.lifecycle import Phase
from loops.engine.text.missing_modules import MissingModule, missing_module
from loops.engine.values import ToolResult
from loops.engine.verification.environment import ABSENT, DISK_FULL, obstacle
from loops.tools.limits import Limits
from loops.tools.sandbox.usage.ceilings import met, says_full
from tests.fakes import Tools, World, done, says


def failed(output: str, exit_code: int | None = 1, killed: str = "", **more: Any) -> ToolResult:
    ending = killed or f"exit code {exit_code}"
    said = f"{ending} (0.1 s)\n{output}"
    return ToolResult(ok=False, content=said, error=ending, exit_code=exit_code, data={"killed": killed}, **more)


IMPORTED, RUN_BY_PYTHON = "E   ModuleNotFoundError: No module named '{}'", "/usr/bin/python3: No module named {}"


def absent(name: str, said: str = IMPORTED, **more: Any) -> ToolResult:
    """As the tool gives it, of a module that is no part of the work."""
    found = failed(said.format(name))
    return replace(found, data={**found.data, ABSENT: {"name": name, "declared": False, **more}})


def nobody_writes(missing: MissingModule) -> bool:
    return False


TRACEBACK = """Traceback (most recent call last):
  File "/w/tests/test_sum.py", line 1, in <module>
    from invoices import total
ModuleNotFoundError: No module named 'invoices'
1 error in 0.02s"""
NO_ROOM = "OSError: [Errno 28] No space left on device: '/tmp/x'"
ENVIRONMENT = {
    "a program": (failed("[stderr]\n/bin/bash: line 1: pytest: command not found", 127), "program_missing", "pytest"),
    "a program of dash": (failed("sh: 1: jest: not found", 127), "program_missing", "jest"),
    "a program by its path": (failed("bash: line 1: ./run: No such file or directory", 127), "program_missing", "run"),
    "a program that nobody names": (failed("", 127), "program_missing", "a program"),
    "a program of make": (
        failed("/bin/sh: 1: pytest: not found\nmake: *** [Makefile:2: test] Error 127", 2), "program_missing", "pytest",
    ),
    "a test runner": (absent("pytest", "[stderr]\n/usr/bin/python3: No module named {}"), "program_missing", "pytest"),
    "a module": (absent("requests"), "program_missing", "requests"),
    "a program of env": (failed("env: \u2018node\u2019: No such file or directory", 127), "program_missing", "node is"),
    "a program of bundler": (failed("bundler: command not found: rspec", 127), "program_missing", "rspec"),
    "a permission": (failed("/bin/bash: line 1: ./check.sh: Permission denied", 126), "not_executable", "./check.sh"),
    "time": (failed("1 passed", -1, killed="stopped after 120 s (time limit)"), "timed_out", "120 s"),
    "time, by its owner": (failed("", None, fault="timeout"), "timed_out", "exit code"),
    "room": (replace(failed(NO_ROOM), data={"killed": "", DISK_FULL: True}), "disk_full", "no space"),
    "anything to run it in": (ToolResult(ok=False, content="", error="no sandbox"), "not_run", "no sandbox"),
}  # fmt: skip
WORK = {
    "a failing test": failed("1 failed, 3 passed in 0.1s"),
    "a module that the code wants": failed(TRACEBACK, 2),
    "a module of the work that is run": failed("/usr/bin/python3: No module named invoices"),
    "a word in the output of a test": failed("E   assert 'pytest: command not found' == ''\n1 failed"),
    "a test that prints what a full disk says": failed(f"E   {NO_ROOM}\n1 failed"),
    "a killed program": failed("Killed", 137),
    "a syntax error": failed("SyntaxError: invalid syntax", 1),
}


@pytest.mark.spec("E1", "M4", "X5")
@pytest.mark.parametrize("name", ENVIRONMENT)
def test_what_the_environment_lacks_is_seen(name: str) -> None:
    result, code, named = ENVIRONMENT[name]
    found = obstacle(result, nobody_writes)
    assert found is not None
    assert found.code == code
    assert named in found.what
    assert found.todo.endswith(".")


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize("name", WORK)
def test_what_the_work_lacks_stays_its_own_failure(name: str) -> None:
    assert obstacle(WORK[name]) is None
    assert obstacle(ToolResult(ok=True, content="pytest: command not found", exit_code=0)) is None


@pytest.mark.spec("E1", "X5", "I7")
@pytest.mark.parametrize(
    "words",
    [
        "OSError: [Errno 28] No space left on device: '/w/x'",
        "npm error nospc ENOSPC: no space left on device, write",
        "write failed: Disk quota exceeded",
        "Error: EDQUOT: disk quota exceeded, write",
        "There is not enough space on the disk.",
    ],
)
def test_whoever_reads_that_a_disk_is_full_reads_the_same_words(words: str) -> None:
    """Who looks at the disk, who sorts the failure and who names the ceiling of the sandbox."""
    assert says_full(words.encode())
    assert classify(Failure(Source.TOOL, words, tool="run_command", exit_code=1)).rule == "limit_hit"
    assert any("TMPDIR" in one for one in met(Limits(), words.encode()))


@pytest.mark.spec("E1", "X5", "I7")
@pytest.mark.parametrize(
    "words", ["Error: ENOSPC: System limit for number of file watchers reached", "E   assert 'no space' in label"]
)
def test_what_only_sounds_like_a_full_disk_is_none(words: str) -> None:
    assert not says_full(words.encode())
    assert not any("TMPDIR" in one for one in met(Limits(), words.encode()))


class Place:
    """Where checks run: what they meet there next, the last one for ever."""

    def __init__(self, *results: ToolResult, **limits: int) -> None:
        self.results = list(results)
        self.world = World(
            lambda request: done("3"),
            Tools({"run_command": lambda arguments: self.next()}),
            criteria=[("the sums are right", "pytest -q")],
            limits={"max_repairs": 1, **limits},
        )

    def next(self) -> ToolResult:
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


MISSING, PASSES = ENVIRONMENT["a program"][0], ToolResult(ok=True, content="4 passed", exit_code=0)
FAILS = WORK["a failing test"]


@pytest.mark.spec("E1", "Q1", "X5", "M6")
@pytest.mark.parametrize("name", ENVIRONMENT)
def test_a_person_is_asked_and_the_checks_run_again(name: str) -> None:
    world = Place(ENVIRONMENT[name][0], PASSES).world
    assert world.drive() == "gate:checks_not_run"
    (gate,) = world.gatekeeper.opened
    assert "cannot run here" in gate.title
    assert ENVIRONMENT[name][2] in gate.view["failure"]
    (check,) = world.state.checks or ()
    assert (check.status, check.obstacle) == ("error", ENVIRONMENT[name][1])
    world.decide("approve")
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.state.repairs) == ("criteria_met", 0)
    assert len(world.models.requests) == 1, "the agent was not asked: it could not put it right"


@pytest.mark.spec("E1", "M6")
@pytest.mark.parametrize("name", WORK)
def test_a_failure_of_the_work_is_repaired_and_nobody_is_asked(name: str) -> None:
    """The control: only what is listed gets a run past its repairs."""
    world = Place(WORK[name], PASSES).world
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.state.repairs) == ("criteria_met", 1)
    assert world.gatekeeper.opened == []


@pytest.mark.spec("E1", "Q4")
def test_a_person_who_gives_it_back_makes_it_a_repair() -> None:
    """Whoever sees that the agent removed the runner says so, and the agent pays for it."""
    world = Place(MISSING, PASSES).world
    assert world.drive() == "gate:checks_not_run"
    world.decide("respond", answer="You deleted it: put it back.")
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.state.repairs) == ("criteria_met", 1)
    assert world.journal.of(f.DiagnosisMade)[0].causes == ("ENVIRONMENT", "INCOMPLETENESS")
    assert "You deleted it" in str(world.models.requests[-1].messages)


@pytest.mark.spec("A6", "E1")
def test_checks_are_run_again_only_as_often_as_a_run_is_let_go_on() -> None:
    world = Place(MISSING, max_extensions=2).world
    for used in range(3):
        assert world.drive() == "gate:checks_not_run"
        view = world.gatekeeper.opened[-1].view
        assert (view["extensions_used"], view["extensions_allowed"]) == (used, 2)
        world.decide("approve")
    assert world.drive() == "ended"
    assert world.state.end_reason == "checks_not_run"


@pytest.mark.spec("E1", "J4")
def test_a_gate_about_it_that_an_earlier_version_opened_is_decided_alike() -> None:
    world = Place(MISSING, PASSES).world
    world.drive()
    gate = world.state.gate
    assert gate is not None
    earlier = evolve(world.state, gate=replace(gate, kind="escalation"))
    for verdict, fatal, checks in (("approve", "", None), ("reject", "checks_not_run", earlier.checks)):
        decided = f.GateDecided(gate=gate.id, kind="escalation", verdict=verdict, by="ana", reason="", payload={})
        state = apply(earlier, decided)
        assert (state.fatal, state.checks) == (fatal, checks)


@pytest.mark.spec("E1", "A5")
def test_a_run_that_nobody_helps_ends_by_that_name_and_can_be_tried_again() -> None:
    world = Place(MISSING, PASSES).world
    assert world.drive() == "gate:checks_not_run"
    world.decide("reject", reason="not now")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "checks_not_run")
    body = world.journal.of(f.RunEnded)[-1].report
    assert body["causes"] == ["ENVIRONMENT"]
    assert "pytest is not installed" in body["diagnosis"]
    assert body["explanation"] == EXPLANATIONS["checks_not_run"]
    world.send("resume")
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.state.repairs) == ("criteria_met", 0)


@pytest.mark.spec("M6")
def test_what_is_wrong_with_the_work_waits_for_the_environment() -> None:
    """One command could not run, another one failed: the repair comes when both could be judged."""
    results = {"lint": [MISSING, PASSES], "test": [FAILS, FAILS, PASSES]}
    tools = Tools({"run_command": lambda arguments: results[arguments["command"]].pop(0)})
    results["lint"] += [PASSES]
    world = World(lambda request: done(), tools, criteria=[("it is neat", "lint"), ("it works", "test")])
    assert world.drive() == "gate:checks_not_run"
    assert world.state.repairs == 0
    world.decide("approve")
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.state.repairs) == ("criteria_met", 1)


# --- A module that is not there -------------------------------------------------------------------------------------


def lacks(name: str, declared: bool | None = None, said: str = IMPORTED) -> ToolResult:
    """``declared`` None: it is a part of the work."""
    return failed(said.format(name)) if declared is None else absent(name, said, declared=declared)


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize(
    ("result", "is_seen"),
    [
        (lacks("requests", declared=True), True),
        (lacks("django", declared=True, said=RUN_BY_PYTHON), True),
        (lacks("django", declared=False, said=RUN_BY_PYTHON), True),
        (lacks("requests", declared=False), False),
        (lacks("invoices"), False),
        (lacks("invoices", said=RUN_BY_PYTHON), False),
        (replace(lacks("invoices"), data={ABSENT: {"name": "requests", "declared": True}}), False),
        (lacks("requests", declared=True, said="E   assert 'No module named {}' == ''"), False),
        (replace(lacks("requests", declared=True), ok=True, error=""), False),
    ],
)
def test_a_module_that_the_project_says_it_needs_is_no_fault_of_the_work(result: ToolResult, *, is_seen: bool) -> None:
    """Nor one that the command itself runs, and while the agent may still write what its code imports, no other."""
    found = obstacle(result)
    assert (found is not None) is is_seen
    if found is not None:
        missing = missing_module(result.content)
        assert missing is not None
        assert (found.code, found.todo) == ("program_missing", f"Install {missing.name} there.")


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize("result", [lacks("requests", declared=False), lacks("requests", declared=True)])
def test_a_module_of_somebody_else_is_for_a_person_at_once(result: ToolResult) -> None:
    assert obstacle(result, nobody_writes) is not None
    world = Place(result, PASSES).world
    assert world.drive() == "gate:checks_not_run"
    assert "requests is not installed" in world.gatekeeper.opened[0].view["failure"]
    assert world.state.repairs == 0


ONCE = {
    "a slip in the name of a module of the work": ("it works", "pytest", absent("invocies", like="invoices")),
    "a file that the task names": ("`src/ledger.py` adds up", "pytest", absent("ledger")),
    "a folder that the task names": ("ledger/ adds up", "pytest", absent("ledger")),
    "a module that the task names": ("the module ledger runs", "python3 -m ledger", absent("ledger", RUN_BY_PYTHON)),
    "a word in backticks": ("`ledger` adds up", "pytest", absent("ledger")),
}  # fmt: skip
AT_ONCE = {
    "no word of it": ("the tests pass", "python3 -m ledger test", absent("ledger", RUN_BY_PYTHON)),
    "a word that may be anything": ("django check passes", "python3 -m django check", absent("django", RUN_BY_PYTHON)),
    "a word within another": ("`bookledger.py` adds up", "pytest", absent("ledger")),
    "what the project says it needs": ("`ledger.py` adds up", "pytest", absent("ledger", declared=True)),
}


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize("name", [*ONCE, *AT_ONCE])
def test_a_module_that_the_agent_may_have_to_write_costs_one_repair_and_no_second(name: str) -> None:
    """What is missing after that as well is somebody else's."""
    text, command, result = {**ONCE, **AT_ONCE}[name]
    tools = Tools({"run_command": lambda arguments: result})
    world = World(lambda request: done("3"), tools, criteria=[(text, command)], limits={"max_repairs": 5})
    assert world.drive() == "gate:checks_not_run"
    assert world.state.repairs == (name in ONCE)


@pytest.mark.spec("E1", "M4")
def test_a_module_of_the_work_is_repaired_as_often_as_is_allowed() -> None:
    world = Place(lacks("invoices"), max_repairs=2).world
    world.drive()
    assert world.state.repairs == 2
    assert world.journal.of(f.DiagnosisMade)[-1].causes == ("LOGIC_ERROR",)


EDITS = {
    "deleted": ([rb.FileChange("lib/invoices.py", "file:a:1", "")], absent("invoices"), 2),
    "deleted with its folder": ([rb.FileChange("invoices/printing.py", "file:a:1", "")], absent("invoices"), 2),
    "renamed": (
        [rb.FileChange("invoices.py", "file:a:1", ""), rb.FileChange("bills.py", "", "file:a:1")],
        absent("invoices"), 2,
    ),
    "written elsewhere": ([rb.FileChange("lib/invoices.py", "", "file:a:1")], absent("invoices"), 2),
    "a script": (
        [rb.FileChange("check.sh", "file:a:1", "")],
        failed("bash: line 1: ./check.sh: No such file or directory", 127), 2,
    ),
    "settings of its name": (
        [rb.FileChange("pytest.ini", "", "file:a:1"), rb.FileChange("pytest.config.js", "file:a:1", "")],
        absent("pytest", RUN_BY_PYTHON), 0,
    ),
    "something else": ([rb.FileChange("lib/bills.py", "file:a:1", "")], absent("invoices"), 0),
    "only changed": ([rb.FileChange("vendor/x/requests/api.py", "file:a:1", "file:b:1")], absent("requests"), 0),
    "written into a folder so named": ([rb.FileChange("vendor/requests/a.py", "", "file:b:1")], absent("requests"), 0),
}  # fmt: skip


@pytest.mark.spec("E1", "M4", "O1")
@pytest.mark.parametrize("name", EDITS)
def test_what_the_run_took_away_is_its_own_to_put_back(name: str) -> None:
    changes, result, repairs = EDITS[name]
    tools = Tools({"edit": lambda arguments: "done", "run_command": lambda arguments: result})
    tools.undo["edit"] = rb.restoring(changes)
    answers = iter([says("", ("edit", {}))])
    world = World(
        lambda request: next(answers, done("3")), tools, criteria=[("it works", "pytest")], limits={"max_repairs": 2}
    )
    rest = world.drive()
    assert world.state.repairs == repairs
    if repairs:
        assert world.journal.of(f.DiagnosisMade)[-1].causes == ("LOGIC_ERROR",)
    else:
        assert rest == "gate:checks_not_run"
        assert "is not installed" in world.gatekeeper.opened[0].view["failure"]
