"""The commands of the criteria run before the first request: what they say, and who hears it (SPEC E1, ADR 0064)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.facts import Check
from loops.engine.state.check import CheckStatus
from loops.engine.state.lifecycle import Phase
from loops.engine.state.spec import Criterion, RunSpec
from loops.engine.values import Access, ToolResult
from loops.engine.verification import trial
from tests.fakes import Tools, World, done, spec
from tests.unit.engine.test_environment import ENVIRONMENT, IMPORTED, RUN_BY_PYTHON, absent, failed

pytestmark = pytest.mark.spec("E1", "X5")
RED = failed("Ran 20 tests in 0.1s\nFAILED (failures=7)", 1)
RED = replace(RED, data={**RED.data, "failed": 7, "passed": 13, "reported": True})
GREEN = ToolResult(ok=True, content="20 passed", exit_code=0)
MISSING = ENVIRONMENT["a program"][0]


class Trial:
    """A run whose command meets these results, one after the other, the last one for ever."""

    def __init__(self, *results: ToolResult, access: Access = Access.ALLOW, **changes: Any) -> None:
        self.results = list(results)
        self.tools = Tools({"run_command": lambda arguments: self.next()}, {"run_command": access})
        changes = {"criteria": [("the tests pass", "pytest -q")], "tries_criteria": True} | changes
        self.world = World(lambda request: done("3"), self.tools, **changes)

    def next(self) -> ToolResult:
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    @property
    def tried(self) -> list[f.CriteriaTried]:
        return self.world.journal.of(f.CriteriaTried)

    def first_words(self) -> str:
        """What the model was asked first."""
        return str(self.world.models.requests[0].messages[0])


def test_the_model_begins_with_what_its_tests_say() -> None:
    run = Trial(RED, GREEN)
    assert run.world.drive() == "ended"
    kinds = run.world.journal.kinds()
    assert kinds.index("CriteriaTried") < kinds.index("ModelRequested")
    (tried,) = run.tried
    assert [(check.status, check.counts) for check in tried.checks] == [("failed", "7 failed, 13 passed")]
    assert "pytest -q: does not hold yet (7 failed, 13 passed)" in run.first_words()
    assert "| FAILED (failures=7)" in run.first_words()
    assert (run.world.state.end_reason, run.world.state.repairs, run.world.state.step) == ("criteria_met", 0, 1)
    assert run.world.gatekeeper.opened == []


def test_what_holds_already_is_worth_a_word_and_no_question() -> None:
    run = Trial(GREEN)
    assert run.world.drive() == "ended"
    assert "pytest -q: holds already" in run.first_words()
    assert run.world.gatekeeper.opened == []


@pytest.mark.parametrize("changes", [{"tries_criteria": False}, {"criteria": [("it is nice", "")]}])
def test_a_run_that_does_not_try_them_is_as_before(changes: dict[str, Any]) -> None:
    run = Trial(GREEN, **changes)
    assert run.world.drive() == "ended"
    assert run.tried == []
    assert "Before your work began" not in run.first_words()


@pytest.mark.parametrize("changes", [{}, {"tries_criteria": True}])
def test_the_wish_is_one_field_that_old_journals_do_not_have(changes: dict[str, Any]) -> None:
    plain = to_plain(spec(**changes))
    assert ("tries_criteria" in plain) is bool(changes)
    assert from_plain(RunSpec, plain) == spec(**changes)


@pytest.mark.spec("Q1", "M6")
@pytest.mark.parametrize(
    "name", sorted(set(ENVIRONMENT) - {"a program by its path", "a program that nobody names", "a module"})
)
def test_what_the_environment_lacks_is_put_before_a_person_before_any_model(name: str) -> None:
    result, code, named = ENVIRONMENT[name]
    run = Trial(result, GREEN)
    assert run.world.drive() == "gate:checks_not_run"
    (gate,) = run.world.gatekeeper.opened
    assert gate.title.startswith("Before the work begins: the checks cannot run here")
    assert (gate.view["before_work"], gate.view["rule"]) == (True, code)
    assert named in gate.view["failure"]
    assert (run.world.models.requests, run.world.state.repairs, run.world.state.step) == ([], 0, 0)
    run.world.decide("approve")
    assert run.world.drive() == "ended"
    assert len(run.tried) == 2
    assert (run.world.state.end_reason, run.world.state.repairs) == ("criteria_met", 0)


@pytest.mark.spec("M6")
def test_a_person_may_let_it_begin_and_the_model_knows() -> None:
    run = Trial(MISSING, GREEN)
    assert run.world.drive() == "gate:checks_not_run"
    run.world.decide("respond", answer="Go on: it is installed tonight.")
    assert run.world.drive() == "ended"
    assert "cannot run here. pytest is not installed" in run.first_words()
    assert "it is installed tonight" in run.first_words()
    assert (len(run.tried), run.world.state.repairs) == (1, 0), "guidance before the work costs no repair"


@pytest.mark.spec("A5")
def test_a_rejection_ends_it_and_it_can_be_tried_again() -> None:
    run = Trial(MISSING, RED, GREEN)
    assert run.world.drive() == "gate:checks_not_run"
    run.world.decide("reject", reason="not now")
    assert run.world.drive() == "ended"
    assert (run.world.state.phase, run.world.state.end_reason) == (Phase.FAIL, "checks_not_run")
    report = run.world.journal.of(f.RunEnded)[-1].report
    assert "pytest is not installed" in report["diagnosis"]
    assert report["causes"] == ["ENVIRONMENT"]
    run.world.send("resume")
    assert run.world.drive() == "ended"
    assert (run.world.state.end_reason, len(run.tried)) == ("criteria_met", 2)


@pytest.mark.spec("A6")
def test_it_is_tried_again_only_as_often_as_a_run_is_let_go_on() -> None:
    run = Trial(MISSING, limits={"max_extensions": 2})
    for _ in range(3):
        assert run.world.drive() == "gate:checks_not_run"
        run.world.decide("approve")
    assert run.world.drive() == "ended"
    assert (run.world.state.end_reason, run.world.models.requests) == ("checks_not_run", [])


@pytest.mark.spec("Q5")
@pytest.mark.parametrize(
    ("access", "why"), [(Access.ASK, "ask a person about commands"), (Access.DENY, "deny this command")]
)
def test_what_is_asked_about_or_denied_does_not_run_and_nobody_is_asked(access: Access, why: str) -> None:
    run = Trial(MISSING, access=access, criteria=[("the tests pass", "pytest -q")])
    run.world.drive()
    (tried,) = run.tried
    assert [check.status for check in tried.checks] == [CheckStatus.UNPROVEN]
    assert why in tried.checks[0].detail
    assert (tried.summary, len(run.world.models.requests)) == ("", 1)
    before_the_answer = run.world.journal.kinds()[: run.world.journal.kinds().index("ModelAnswered")]
    assert "GateOpened" not in before_the_answer


@pytest.mark.spec("J2")
def test_a_worker_that_is_lost_meanwhile_is_followed_by_one_that_begins_again() -> None:
    def dies() -> ToolResult:
        raise KeyboardInterrupt

    run = Trial(GREEN)
    run.tools.functions["run_command"] = lambda arguments: dies()
    with pytest.raises(KeyboardInterrupt):
        run.world.drive()
    assert run.world.journal.kinds()[-1] == "ChecksStarted"
    run.tools.functions["run_command"] = lambda arguments: run.next()
    assert run.world.drive() == "ended"
    assert (len(run.tried), run.world.state.end_reason) == (1, "criteria_met")


# --- What the agent is to write -------------------------------------------------------------------------------------

NO_FILE = "/bin/bash: line 1: {}: No such file or directory"
TO_COME = {
    "a script": ("./run.sh", failed("/bin/bash: line 1: ./run.sh: No such file or directory", 127)),
    "a script for a shell": ("bash run.sh", failed("bash: run.sh: No such file or directory", 127)),
    "a script for make": ("make", failed("/bin/sh: 1: ./run.sh: not found\nmake: *** [Makefile:2: x] Error 127", 2)),
    "a script of Python": ("python3 check.py", failed("python3: can't open file '/w/check.py': [Errno 2]", 2)),
    "a file below its own folder": ("/w/bin/greet", failed(NO_FILE.format("/w/bin/greet"), 127)),
    "the same in the sandbox": ("/workspace/greet", failed(NO_FILE.format("/workspace/greet"), 127)),
    "a test": ("python3 -m unittest tests.test_new", failed(IMPORTED.format("tests.test_new"))),
    "the folder of a test": ("python3 -m unittest tests.test_new", absent("tests")),
    "a module that tests import": ("pytest", absent("invoices")),
    "a module of others that nobody declared": ("pytest", absent("requests")),
    "a package that is run": ("python3 -m greet", absent("greet", RUN_BY_PYTHON)),
    "a program on a path of its own": ("PATH=bin:$PATH greet", failed("bash: line 1: greet: command not found", 127)),
    "a program that the task names as a file": ("greet", failed("bash: line 1: greet: command not found", 127)),
    "a program without a name": ("./run 2>/dev/null", failed("", 127)),
    "a program of an installation": (".venv/bin/greet", failed(NO_FILE.format(".venv/bin/greet"), 127)),
    "what the shell calls from there": ("cd app && make", failed(NO_FILE.format("cd: app"), 1)),
}  # fmt: skip
NOT_TO_COME = {
    "a runner": ("pytest -q", failed("bash: line 1: pytest: command not found", 127)),
    "a runner of Python's": ("python3 -m pytest", absent("pytest", RUN_BY_PYTHON)),
    "a runner of env": ("env jest", failed("env: \u2018jest\u2019: No such file or directory", 127)),
    "a runner of make": ("make", failed("make: pytest: No such file or directory\nmake: *** [x] Error 127", 2)),
    "a module that the project declares": ("pytest", absent("requests", declared=True)),
    "what an installation fills": ("node_modules/.bin/jest", failed(NO_FILE.format("node_modules/.bin/jest"), 127)),
    "a program elsewhere": ("/opt/x/pytest", failed("bash: line 1: /opt/x/pytest: No such file or directory", 127)),
    "a runner behind a path of modules": ("PYTHONPATH=src pytest", failed("bash: pytest: command not found", 127)),
    "a permission": ("./check.sh", failed("bash: line 1: ./check.sh: Permission denied", 126)),
    "time": ("pytest", ENVIRONMENT["time"][0]),
    "room": ("pytest", ENVIRONMENT["room"][0]),
    "a sandbox": ("pytest", ENVIRONMENT["anything to run it in"][0]),
}  # fmt: skip
GOAL = "Write bin/greet and have pytest pass, ./check.sh too."


@pytest.mark.parametrize("name", TO_COME)
def test_what_the_agent_is_to_write_is_no_obstacle(name: str) -> None:
    command, result = TO_COME[name]
    run = Trial(result, GREEN, criteria=[("it works", command)], goal=GOAL)
    assert run.world.drive() == "ended"
    assert run.world.gatekeeper.opened == []
    assert [check.status for check in run.tried[0].checks] == ["failed"]


@pytest.mark.parametrize("name", NOT_TO_COME)
def test_what_the_agent_cannot_write_is_one(name: str) -> None:
    command, result = NOT_TO_COME[name]
    run = Trial(result, GREEN, criteria=[("it works", command)], goal=GOAL)
    assert run.world.drive() == "gate:checks_not_run"
    assert run.world.models.requests == []


# --- What the model reads -------------------------------------------------------------------------------------------

CHECKS = st.builds(
    Check,
    text=st.text(max_size=20),
    status=st.sampled_from(CheckStatus),
    command=st.text(min_size=1, max_size=2_000),
    detail=st.text(max_size=4_000),
    wanted=st.text(max_size=700),
)


@given(checks=st.lists(CHECKS, max_size=12), window=st.sampled_from([0, 8_000, 200_000]))
def test_whatever_the_commands_print_the_model_reads_a_bounded_part(checks: list[Check], window: int) -> None:
    state = replace(World().state, spec=replace(spec(), windows={"scripted": window}))
    words = trial.summary(checks, state)
    room = trial.ALL_CHARS_SMALL if window == 8_000 else trial.ALL_CHARS
    lines = [line.removeprefix("  | ") for line in words.split("\n") if line.startswith("  | ")]
    assert sum(map(len, lines)) <= room
    assert bool(words) is any(check.status != CheckStatus.UNPROVEN for check in checks)
    assert len(words) < 5 * room + 1_000 * (len(checks) + 1)


@pytest.mark.spec("U1")
def test_the_end_of_what_commands_print_is_what_the_model_reads() -> None:
    criteria = [(f"number {number}", "pytest") for number in range(6)]
    run = Trial(*[failed("first\n" + "x" * 90_000 + "\nlast")] * 6, GREEN, criteria=criteria)
    assert run.world.drive() == "ended"
    words = run.first_words()
    assert ("| last" in words, "first" in words) == (True, False)
    assert words.count("does not hold yet") == 6
    assert 2 * 1_500 < words.count("x") < 4_100
    assert max(map(len, words.split("- pytest"))) < 1_700


def test_without_a_word_the_conversation_stays_as_it_is() -> None:
    silent = f.CriteriaTried(checks=(), summary="")
    assert extend(Transcript(), silent).messages == Transcript().messages
    criterion = Criterion("it works", "pytest")
    assert trial.obstacle_before_work(GREEN, spec(), criterion) is None
