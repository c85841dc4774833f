"""Progress: tests first, artifacts next, the model's estimate last; nothing counts twice and nothing is gamed (G1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.apply import replay
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.facts import Check
from loops.engine.progress import score as progress
from loops.engine.state.measures import NOT_MEASURED, Counts, Measured
from loops.engine.state.run import RunState
from loops.engine.values import ToolResult
from tests import fakes
from tests.fakes import Tools, World, done
from tests.fakes import says as spoken

pytestmark = pytest.mark.spec("G1")


def after(*results: ToolResult, tool: str = "x") -> Measured:
    measured = NOT_MEASURED
    for result in results:
        measured = progress.after_call(measured, tool, result)
    return measured


def ran(passed: int, failed: int, **more: Any) -> ToolResult:
    return ToolResult(ok=not failed, content="", data={"passed": passed, "failed": failed, "source": "junit", **more})


def wrote(path: str, **more: Any) -> ToolResult:
    return ToolResult(ok=True, content="", data={"path": path, "diff": "+x", **more})


def state_of(measured: Measured, **changes: Any) -> RunState:
    state = replay([f.RunStarted(spec=fakes.spec(), system="", prompt_version="", tools_sha256="", at=1)])
    return replace(state, measured=measured, **changes)


def score(*results: ToolResult) -> float:
    return round(progress.measure(state_of(after(*results))).score, 4)


def method(*results: ToolResult) -> str:
    return progress.measure(state_of(after(*results))).method


# --- which method -----------------------------------------------------------------------------------------------------


def test_the_best_evidence_decides() -> None:
    everything = replace(after(ran(1, 1), wrote("a.py")), opinion=0.9)
    checked = state_of(everything, checks=(Check("a", "passed"), Check("b", "failed"), Check("c", "unproven")))
    assert progress.measure(checked) == progress.Progress(0.5, "checks", "1 of 2 criteria proven")
    assert progress.measure(state_of(everything)).method == "tests"
    assert progress.measure(state_of(replace(after(wrote("a.py")), opinion=0.9))).method == "artifacts"
    assert progress.measure(state_of(replace(NOT_MEASURED, opinion=0.9))).method == "model"
    assert progress.measure(state_of(NOT_MEASURED)) == progress.Progress(0.0, "none")


@given(st.floats(0, 1))
def test_an_opinion_alone_counts_little(opinion: float) -> None:
    found = progress.measure(state_of(replace(NOT_MEASURED, opinion=opinion)))
    assert found.score <= 0.3
    assert found.method == ("model" if opinion > 0 else "none")


# --- tests ------------------------------------------------------------------------------------------------------------


def test_it_rises_with_passing_tests_and_falls_with_failing_ones() -> None:
    assert score(ran(2, 5)) < score(ran(5, 2)) < score(ran(7, 0)) == 1.0


def test_it_rises_with_coverage() -> None:
    assert score(ran(5, 5, coverage=0.2)) < score(ran(5, 5, coverage=0.8))
    assert score(ran(5, 5, coverage=0.8), ran(5, 5)) == score(ran(5, 5, coverage=0.8)), "known from the run before"


def test_the_detail_says_the_numbers_and_where_they_are_from() -> None:
    assert progress.measure(state_of(after(ran(5, 2, coverage=0.8)))).detail == "5 of 7 tests pass, 80% covered (junit)"


def test_running_only_the_tests_that_pass_raises_nothing() -> None:
    assert score(ran(5, 5), ran(1, 0)) == score(ran(5, 5)) == 0.5
    assert score(ran(10, 0), ran(0, 3)) == 0.7, "but what fails in a part counts"
    assert score(ran(5, 5), ran(1, 0), ran(10, 0)) == 1.0


def test_deleting_failing_tests_raises_nothing() -> None:
    assert score(ran(5, 5), ran(5, 0)) == 0.5


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"passed": 0, "failed": 0},
        {"passed": "5", "failed": 0},
        {"passed": True, "failed": False},
        {"passed": -1, "failed": 0},
        {"passed": 1.5, "failed": 0},
        {"passed": 10**9, "failed": 0},
        {"passed": 3},
    ],
)
def test_what_is_no_count_counts_nothing(data: dict[str, Any]) -> None:
    assert method(ToolResult(ok=True, content="", data=data)) == "none"


@pytest.mark.parametrize("coverage", [-0.1, 1.1, "0.5", True, None, [1]])
def test_what_is_no_share_is_no_coverage(coverage: Any) -> None:
    assert after(ran(1, 1, coverage=coverage)).coverage == -1


# --- tests that a command reported ------------------------------------------------------------------------------------


def says(passed: int, failed: int, **more: Any) -> ToolResult:
    return ran(passed, failed, reported=True, **more)


def test_a_report_counts_as_progress_by_a_method_of_its_own_and_never_fully() -> None:
    assert method(wrote("a.py"), says(3, 1)) == progress.REPORTED
    assert score(says(3, 1)) == 0.75
    assert score(says(9, 0)) == score(says(9, 0, coverage=1.0)) == 0.9
    detail = progress.measure(state_of(after(says(3, 1, coverage=0.5)))).detail
    assert detail == "3 of 4 tests pass, 50% covered (junit)"


def test_what_the_project_has_shown_bounds_what_a_report_can_say() -> None:
    assert score(ran(5, 5), says(10, 0)) == 0.9, "it rises, and not to the end"
    assert score(ran(10, 0), says(10, 0)) == 1.0, "it takes nothing away that was shown"
    assert score(ran(10, 0), says(4, 6)) == 0.4, "but what it breaks counts"
    assert score(ran(5, 5), says(1, 0)) == 0.5, "a part raises nothing"
    assert score(ran(10, 0), says(0, 3)) == 0.7


def test_the_projects_own_tests_forget_what_commands_said() -> None:
    lied = after(says(5000, 0), ran(5, 5))
    assert lied.reported == Counts()
    assert progress.measure(state_of(lied)) == progress.Progress(0.5, "tests", "5 of 10 tests pass (junit)")
    assert score(says(5000, 0), ran(10, 0)) == 1.0, "however wide they said it was"


@pytest.mark.parametrize("value", [1, "true", None, [True]])
def test_only_the_tool_itself_says_that_it_was_a_report(value: Any) -> None:
    assert method(ran(1, 1, reported=value)) == "tests"


@pytest.mark.spec("C6", "E7")
def test_a_report_completes_nothing_and_the_end_says_who_counted() -> None:
    """The criterion fails although the command said that all is well."""
    check = {"run_command": lambda arguments: ToolResult(ok=False, content="", error="exit 1", exit_code=1)}
    world = World(
        [spoken("", ("shell", {})), done(), done(), done()],
        Tools(check | {"shell": lambda arguments: says(7, 0)}),
        criteria=[("it works", "check")],
        limits={"max_repairs": 1},
    )
    assert world.drive() == "gate:limit_reached"
    world.decide("reject", reason="enough")
    assert world.drive() == "ended"
    assert world.state.end_reason == "repair_budget"
    assert world.journal.of(f.StepCompleted)[0].progress_method == progress.REPORTED
    assert (
        "7 tests passed in the latest test run, as a command reported it"
        in world.journal.of(f.RunEnded)[-1].report["done"]
    )


@pytest.mark.spec("F2")
def test_a_run_that_only_commands_test_can_stall() -> None:
    world = World(
        [*(spoken("", ("shell", {"n": number})) for number in range(2)), done()],
        Tools({"shell": lambda arguments: says(3, 1)}),
    )
    world.drive()
    assert [seen.measured for seen in world.state.recent] == [True, True, True]


# --- artifacts --------------------------------------------------------------------------------------------------------


def test_one_file_counts_once_however_often_it_is_written() -> None:
    assert score(*[wrote("a.py")] * 10) == score(wrote("a.py"))


def test_code_counts_more_than_other_files_and_manifests_are_named() -> None:
    assert score(wrote("a.py")) > score(wrote("notes.md"))
    found = progress.measure(state_of(after(wrote("a/b.py"), wrote("a.ts"), wrote("x/package.json"), wrote("n.md"))))
    assert found.detail == "2 code files, 1 dependency manifest, 1 other file changed"


def test_files_alone_prove_half_at_most_and_the_state_stays_small() -> None:
    measured = after(*(wrote(f"a{number}.py") for number in range(10_000)))
    assert progress.measure(state_of(measured)).score == 0.5
    assert len(measured.files) == progress.FILES_REMEMBERED
    assert progress.measure(state_of(measured)).detail == "32 code files changed; more than 32 are not counted"
    few = after(*(wrote(f"a{number}.py") for number in range(31)))
    assert progress.measure(state_of(few)).detail == "31 code files changed"
    assert all(isinstance(value, int) for value in measured.files)


def test_moved_files_count_and_failed_changes_do_not() -> None:
    assert method(ToolResult(ok=True, content="", data={"path": "a.py", "target": "b.py"})) == "artifacts"
    assert method(ToolResult(ok=False, content="", data={"path": "a.py", "diff": "+"})) == "none"
    assert method(ToolResult(ok=True, content="", data={"path": "a.py"})) == "none"


# --- in a run ---------------------------------------------------------------------------------------------------------


def test_every_step_stores_its_score_and_method() -> None:
    outcomes = iter([wrote("a.py"), ran(1, 3), ran(4, 0)])
    world = World(
        [spoken("", ("write", {"n": number})) for number in range(3)] + [done()],
        Tools({"write": lambda arguments: next(outcomes)}),
    )
    assert world.drive() == "ended"
    steps = world.journal.of(f.StepCompleted)
    assert [(round(step.progress, 2), step.progress_method) for step in steps] == [
        (0.3, "artifacts"),
        (0.25, "tests"),
        (1.0, "tests"),
        (1.0, "tests"),
    ]
    assert steps[1].progress_detail == "1 of 4 tests pass (junit)"
    assert world.state.measured.best == 1.0
    assert world.state.measured.risen_at == 3


@given(
    st.lists(
        st.builds(ran, st.integers(0, 50), st.integers(0, 50), coverage=st.none() | st.floats(0, 1))
        | st.builds(says, st.integers(0, 90), st.integers(0, 50), coverage=st.none() | st.floats(0, 1))
        | st.builds(wrote, st.sampled_from(["a.py", "b.md", "go.mod", "c/d.rs"])),
        max_size=12,
    )
)
def test_the_score_stays_a_share_and_the_state_can_be_stored(results: list[ToolResult]) -> None:
    measured = after(*results)
    assert 0 <= progress.measure(state_of(measured)).score <= 1
    assert from_plain(Measured, to_plain(measured)) == measured
