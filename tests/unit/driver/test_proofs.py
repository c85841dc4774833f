"""Where the command of a criterion runs, and what that proves (SPEC L2, C6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from loops.driver import Ports, checkout_runs, own_tests
from loops.driver.interrupts import TookTooLong
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.rollback.plan import RESTORE
from loops.engine.state.check import Check
from loops.engine.state.own_tests import OwnTests
from loops.engine.state.spec import Criterion
from loops.engine.values import Compensation, ToolCall, ToolResult
from tests import fakes
from tests.fakes import Tools, done, says

pytestmark = pytest.mark.spec("L2", "C6")
TESTS = "python3 -m unittest"
GOOD = ToolResult(ok=True, content="", data={"test_report": "r", "tests_complete": True})
SILENT = ToolResult(ok=True, content="")
BAD = ToolResult(ok=False, content="", error="exit code 1", exit_code=1)
HANGS = ToolResult(ok=True, content="never")
NOT_THERE = ToolResult(ok=False, content="x: command not found: x", error="exit code 127", exit_code=127)


Make = Callable[[], Awaitable[p.Checkout]]


@dataclass
class Checkouts:
    """Says what there is, and what was asked of it."""

    made: p.Checkout | Exception | Callable[[], Awaitable[p.Checkout]] = field(
        default_factory=lambda: p.Checkout("/clean")
    )
    broken: p.Checkout = field(default_factory=p.Checkout)
    without_work: p.Checkout = field(default_factory=p.Checkout)
    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def make(self, context: p.CallContext, start: str, leftovers: Set[str]) -> p.Checkout:
        self.asked.append("make")
        if isinstance(self.made, Exception):
            raise self.made
        return await self.made() if callable(self.made) else self.made

    async def make_broken(self, *, own_tests: bool = False) -> p.Checkout:
        self.asked.append("make_broken")
        return self.with_own_tests(self.broken, own_tests)

    async def make_without_work(self, *, own_tests: bool = False) -> p.Checkout:
        self.asked.append("make_without_work")
        return self.with_own_tests(self.without_work, own_tests)

    async def mutants(self, most: int) -> list[str]:
        return self.faults[:most]

    async def make_mutated(self, number: int) -> p.Checkout:
        self.asked.append("make_mutated")
        return p.Checkout(f"/mutant{number}")

    def with_own_tests(self, made: p.Checkout, own_tests: bool) -> p.Checkout:
        return replace(made, path=f"{made.path}_own") if own_tests and made.path else made

    async def leave(self) -> None:
        self.asked.append("leave")


class Places(Tools):
    """What a command comes to, by the folder that it runs in: one result, or one after the other."""

    def __init__(self, before: ToolResult, by_place: Mapping[str, ToolResult | list[ToolResult]]) -> None:
        super().__init__({"run_command": lambda arguments: before})
        self.before: ToolResult | None = before
        self.by_place, self.places = by_place, list[str]()
        self.heard: Callable[[], None] = lambda: None

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        if self.before is not None:
            result, self.before = self.before, None
            return result
        place = context.workspace if context.workspace in self.by_place else "left"
        self.places.append(place)
        found = self.by_place[place]
        result = found.pop(0) if isinstance(found, list) else found
        if result is HANGS:
            self.heard()
            await fakes.hanging()
        return result


class World(fakes.World):
    def __init__(
        self, checkouts: Checkouts, before: ToolResult = BAD, **by_place: ToolResult | list[ToolResult]
    ) -> None:
        places = {f"/{name}" if name != "left" else name: result for name, result in by_place.items()}
        self.played = Places(before, places)
        criteria = [("Tests pass", TESTS)]
        super().__init__(
            (done(),) * 9, self.played, criteria=criteria, final_review="unless_verified", tries_criteria=True
        )
        self.checkouts = checkouts

    def ports(self) -> Ports:
        return replace(super().ports(), checkouts=self.checkouts)

    def measured(self) -> Check:
        self.drive()
        (*_, latest) = self.journal.of(f.ChecksCompleted)
        return latest.checks[0]


def test_what_holds_in_a_clean_checkout_and_did_not_before_is_proved() -> None:
    world = World(Checkouts(), clean=GOOD)
    check = world.measured()
    assert (check.evidence, world.played.places) == ("proved", ["/clean"])
    assert world.checkouts.asked == ["make", "make_broken", "make_without_work", "leave"]
    assert world.gatekeeper.opened == []


def test_where_what_judges_was_changed_it_has_to_hold_in_both() -> None:
    changed = p.Checkout("/clean", changed=("test_a.py",))
    world = World(Checkouts(changed), clean=GOOD, left=GOOD)
    assert (world.measured().evidence, world.played.places) == ("proved", ["left", "/clean"])
    world = World(Checkouts(changed), clean=GOOD, left=BAD)
    world.drive()
    assert set(world.played.places) == {"left"}, "what fails as it was left fails"
    world = World(Checkouts(changed), clean=BAD, left=GOOD)
    check = world.measured()
    assert (check.evidence, check.why) == ("claimed", "It fails with test_a.py as when the run began: exit code 1.")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (p.Checkout(why_not="it is too large"), "it is too large"),
        (TookTooLong("checkout"), "no copy of it was made within 300 s"),
    ],
)
def test_without_a_checkout_it_is_claimed(made: Any, why: str) -> None:
    world = World(Checkouts(made), left=GOOD)
    check = world.measured()
    assert (check.evidence, check.why) == ("claimed", f"It ran in the folder that the run could change: {why}.")
    assert [gate.kind for gate in world.gatekeeper.opened] == ["final_review"]


def test_what_cannot_run_in_a_checkout_runs_in_the_folder() -> None:
    world = World(Checkouts(), clean=NOT_THERE, left=GOOD)
    check = world.measured()
    assert (check.status, check.evidence, world.played.places) == ("passed", "claimed", ["/clean", "left"])


def test_what_fails_in_a_checkout_has_failed() -> None:
    world = World(Checkouts(), clean=BAD)
    world.drive()
    assert set(world.played.places) == {"/clean"}
    assert world.journal.of(f.ChecksCompleted)[0].checks[0].status == "failed"


BROKEN = p.Checkout("/broken", broken=("a.py: add",), broken_count=1)


@pytest.mark.parametrize(
    ("before", "there", "evidence"),
    [
        (BAD, BAD, "proved"),
        (GOOD, BAD, "proved"),
        (BAD, GOOD, "contradicted"),
        (GOOD, GOOD, "contradicted"),
        (BAD, SILENT, "contradicted"),
        (BAD, NOT_THERE, "proved"),
        (GOOD, NOT_THERE, "supported"),
    ],
)
def test_work_that_is_broken_on_purpose_has_to_fail(before: ToolResult, there: ToolResult, evidence: str) -> None:
    world = World(Checkouts(broken=BROKEN), before, clean=GOOD, broken=there)
    check = world.measured()
    assert (check.evidence, world.played.places) == (evidence, ["/clean", "/broken"])
    if evidence == "contradicted":
        assert check.why == "It holds as well when the functions that the run changed raise an error: a.py: add."


@pytest.mark.parametrize(("before", "evidence"), [(BAD, "proved"), (GOOD, "supported")])
def test_where_nothing_can_be_broken_what_it_said_before_tells(before: ToolResult, evidence: str) -> None:
    assert World(Checkouts(), before, clean=GOOD).measured().evidence == evidence


def test_what_reports_no_tests_is_not_broken_for_it() -> None:
    world = World(Checkouts(broken=BROKEN), clean=SILENT)
    assert (world.measured().evidence, world.checkouts.asked) == ("supported", ["make", "leave"])


def test_what_takes_long_is_not_run_once_more() -> None:
    slow = replace(GOOD, duration_ms=301_000)
    world = World(Checkouts(broken=BROKEN), clean=slow)
    assert (world.measured().evidence, world.checkouts.asked) == ("proved", ["make", "leave"])


def test_a_checkout_does_not_outlive_a_stop() -> None:
    world = World(Checkouts())

    async def stopping() -> p.Checkout:
        world.send("stop")
        await fakes.hanging()
        raise AssertionError

    world.checkouts.made = stopping
    world.drive()
    assert world.checkouts.asked == ["make", "leave"]


def test_broken_work_that_hangs_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code may try again for as long as what it calls raises an error."""
    monkeypatch.setattr(checkout_runs, "AGAIN_AT_LEAST_S", 1.0)
    world = World(Checkouts(broken=BROKEN), GOOD, clean=GOOD, broken=HANGS)
    assert (world.measured().evidence, world.played.places) == ("supported", ["/clean", "/broken"])


# --- without the work -------------------------------------------------------------------------------------------------

BARE = p.Checkout("/bare")


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("there", "evidence"),
    [(BAD, "proved"), (NOT_THERE, "proved"), (GOOD, "contradicted"), (SILENT, "contradicted")],
)
def test_what_is_proved_has_to_fail_without_the_work(there: ToolResult, evidence: str) -> None:
    world = World(Checkouts(without_work=BARE), clean=GOOD, bare=there)
    check = world.measured()
    assert (check.evidence, world.played.places) == (evidence, ["/clean", "/bare"])
    if evidence == "contradicted":
        why = "It holds as well without what the run changed, with every file as it was when the run began."
        assert check.why == why


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("checkouts", "before", "places"),
    [
        (Checkouts(without_work=BARE), GOOD, ["/clean"]),
        (Checkouts(without_work=BARE, broken=BROKEN), BAD, ["/clean", "/broken"]),
        (Checkouts(without_work=BARE, broken=p.Checkout(why_not="it is too large")), BAD, ["/clean"]),
    ],
    ids=["held before", "broken on purpose", "cannot be told"],
)
def test_nothing_runs_without_the_work_where_that_tells_nothing_more(
    checkouts: Checkouts, before: ToolResult, places: list[str]
) -> None:
    world = World(checkouts, before, clean=GOOD, broken=BAD, bare=BAD)
    assert world.measured().holds
    assert (world.played.places, "make_without_work" in world.checkouts.asked) == (places, False)


@pytest.mark.spec("X4")
def test_what_is_flaky_does_not_run_without_the_work() -> None:
    world = World(Checkouts(without_work=BARE), clean=[BAD, GOOD], bare=BAD)
    assert (world.measured().evidence, world.played.places) == ("claimed", ["/clean", "/clean"])


@pytest.mark.spec("X4")
@pytest.mark.parametrize("checkouts", [Checkouts(without_work=BARE), Checkouts()], ids=["hangs", "cannot be made"])
def test_what_hangs_without_the_work_says_nothing(checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout_runs, "AGAIN_AT_LEAST_S", 1.0)
    assert World(checkouts, clean=GOOD, bare=HANGS).measured().evidence == "proved"


# --- flaky ------------------------------------------------------------------------------------------------------------


def reported(result: ToolResult, **tests: str) -> ToolResult:
    return replace(result, data={**result.data, "test_outcomes": tests})


RED = reported(BAD, a="passed", b="failed", c="failed")
GREEN = reported(GOOD, a="passed", b="passed", c="passed")


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("first", "second", "changed"),
    [(RED, GREEN, "b, c"), (BAD, GREEN, "its command"), (RED, SILENT, "its command"), (BAD, SILENT, "its command")],
)
def test_what_fails_and_then_holds_is_flaky_and_only_claimed(
    first: ToolResult, second: ToolResult, changed: str
) -> None:
    world = World(Checkouts(), clean=[first, second])
    check = world.measured()
    assert (check.status, check.evidence, world.played.places) == ("passed", "claimed", ["/clean", "/clean"])
    assert check.why == f"Flaky: on the same files it failed, then passed. What changed its outcome: {changed}."
    assert [gate.kind for gate in world.gatekeeper.opened] == ["final_review"]


class Writes(Places):
    """The folder is another one after each call of ``write``; in it, commands come to one thing after the other."""

    written, told = 0, 0

    def __init__(self, *clean: ToolResult) -> None:
        super().__init__(BAD, {"/clean": [*clean], "left": BAD})
        self.functions["write"] = lambda arguments: "written"

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        if call.name != "write":
            return await super().execute(call, context, on_output)
        self.written += 1
        return ToolResult(ok=True, content="written")

    def changed_otherwise(self, context: p.CallContext, start: str, recorded: Mapping[str, str]) -> Compensation | None:
        was, self.told = self.told, self.written
        if was == self.written:
            return None
        states = [{"path": "a.py", "before": f"v{was}" if was else "", "after": f"v{self.written}"}]
        return Compensation(RESTORE, {"files": states})


def again(*turns: p.ModelReply, clean: Sequence[ToolResult], snapshot: str = "start", lint: bool = False) -> World:
    """A run that says more than once that it is done, and what commands come to in its checkouts."""
    world = World(Checkouts())
    world.played = world.tools = Writes(*clean)
    world.models = fakes.Models((*turns, done()))
    started = world.journal.facts[0]
    assert isinstance(started, f.RunStarted)
    criteria = (*started.spec.criteria, *([Criterion("It is tidy", "lint")] if lint else []))
    world.journal.facts[0] = replace(started, snapshot=snapshot, spec=replace(started.spec, criteria=criteria))
    return world


WRITE = says("", ("write", {}))


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("turns", "snapshot", "evidence"),
    [
        ((WRITE, done()), "start", "claimed"),
        ((WRITE, done(), WRITE), "start", "proved"),
        ((done(),), "start", "claimed"),
        ((WRITE, done()), "", "proved"),
    ],
    ids=["nothing was changed since", "something was", "nothing ever was", "nobody knows what was"],
)
def test_what_failed_before_on_the_same_files_is_flaky(
    turns: tuple[p.ModelReply, ...], snapshot: str, evidence: str
) -> None:
    check = again(*turns, clean=(BAD, BAD, GOOD), snapshot=snapshot).measured()
    assert (check.status, check.evidence) == ("passed", evidence)
    assert check.why == (
        "" if evidence == "proved" else "Flaky: it failed at an earlier check, and no file has changed since."
    )


@pytest.mark.spec("X4")
def test_what_held_before_on_the_same_files_is_not_flaky() -> None:
    """Another criterion failed."""
    world = again(WRITE, done(), clean=(GOOD, BAD, BAD, GOOD, GOOD), lint=True)
    world.drive()
    first, latest = world.journal.of(f.ChecksCompleted)
    assert [check.status for check in first.checks] == ["passed", "failed"]
    assert [check.evidence for check in latest.checks] == ["proved", "claimed"]


def test_of_many_flaky_tests_the_first_are_named() -> None:
    tests = {f"t{number}" * 60: "failed" for number in range(9)}
    world = World(Checkouts(), clean=[reported(BAD, **tests), reported(GOOD, **dict.fromkeys(tests, "passed"))])
    why = world.measured().why
    assert why.endswith(" and 4 more.")
    assert len(why) < 700


@pytest.mark.spec("X4")
@pytest.mark.parametrize(("there", "evidence"), [(BAD, "claimed"), (GOOD, "contradicted")])
def test_what_is_flaky_is_not_proved_by_failing_where_the_work_is_broken(there: ToolResult, evidence: str) -> None:
    world = World(Checkouts(broken=BROKEN), clean=[BAD, GOOD], broken=there)
    check = world.measured()
    assert (check.evidence, world.played.places) == (evidence, ["/clean", "/clean", "/broken"])


@pytest.mark.spec("X4")
@pytest.mark.parametrize("first", [BAD, replace(BAD, duration_ms=30_000)])
def test_what_fails_twice_has_failed(first: ToolResult) -> None:
    """And what could not run the second time says nothing of the first."""
    world = World(Checkouts(), clean=[first, NOT_THERE, GOOD])
    world.drive()
    first_check, second_check = (fact.checks[0] for fact in world.journal.of(f.ChecksCompleted))
    assert (first_check.status, first_check.obstacle, second_check.evidence) == ("failed", "", "proved")
    assert world.played.places == ["/clean"] * 3


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("first", "places"),
    [(replace(BAD, duration_ms=30_001), ["/clean", "/clean"]), (NOT_THERE, ["/clean", "left", "/clean"])],
)
def test_what_takes_long_to_fail_or_cannot_run_is_not_tried_again(first: ToolResult, places: list[str]) -> None:
    world = World(Checkouts(), clean=[first, GOOD], left=BAD)
    world.drive()
    checks = [fact.checks[0] for fact in world.journal.of(f.ChecksCompleted)]
    assert [(check.status, check.evidence) for check in checks] == [("failed", ""), ("passed", "proved")]
    assert world.played.places == places


def test_where_the_tests_changed_too_what_is_flaky_is_said() -> None:
    changed = p.Checkout("/clean", changed=("test_a.py",))
    world = World(Checkouts(changed), clean=[BAD, GOOD], left=GOOD)
    check = world.measured()
    assert (check.evidence, check.why.partition(":")[0], world.played.places) == (
        "claimed",
        "Flaky",
        ["left", "/clean", "/clean"],
    )


def test_a_second_try_does_not_outlive_a_stop() -> None:
    world = World(Checkouts(), clean=[BAD, HANGS])
    world.played.heard = lambda: world.send("stop")
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.checkouts.asked) == ("operator_stop", ["make", "leave"])
    assert world.journal.of(f.ChecksCompleted) == []


# --- tests that the run wrote -----------------------------------------------------------------------------------------

CHANGED = p.Checkout("/clean", changed=("test_a.py",))
LEFT = reported(GOOD, a="passed", own1="passed", own2="passed")
CLEAN = reported(GOOD, a="passed")
WITHOUT = reported(BAD, a="passed", own1="passed", own2="failed")
FAULTS = ["a.py:1: `<` became `<=`", "a.py:2: `+` became `-`"]


def written(**more: Any) -> Checkouts:
    return Checkouts(CHANGED, **{"without_work": BARE, "faults": FAULTS, **more})


def test_what_tests_of_the_run_are_worth_is_found_out() -> None:
    world = World(
        written(broken=BROKEN), clean=CLEAN, left=LEFT, broken=BAD, bare_own=WITHOUT, mutant0=BAD, mutant1=LEFT
    )
    check = world.measured()
    assert (check.evidence, check.why) == ("proved", "")
    assert check.own_tests == OwnTests(
        count=2,
        names=("own1", "own2"),
        ran_without=True,
        hold_without_count=1,
        hold_without=("own1",),
        mutants=2,
        unnoticed=(FAULTS[1],),
    )
    assert world.played.places == ["left", "/clean", "/broken", "/bare_own", "/mutant0", "/mutant1"]
    assert world.checkouts.asked[-1] == "leave"


@pytest.mark.parametrize(
    ("left", "clean"),
    [(CLEAN, CLEAN), (GOOD, GOOD), (LEFT, GOOD), (replace(LEFT, duration_ms=60_001), CLEAN)],
    ids=["no other tests", "no reports", "no report of the start", "too slow"],
)
def test_where_no_tests_of_the_run_can_be_told_nothing_more_runs(left: ToolResult, clean: ToolResult) -> None:
    world = World(written(broken=BROKEN), clean=clean, left=left, broken=BAD)
    assert world.measured().own_tests is None
    assert world.played.places == ["left", "/clean", "/broken"]


def test_honest_work_without_tests_of_its_own_runs_no_more_than_before() -> None:
    world = World(Checkouts(broken=BROKEN, faults=FAULTS), clean=CLEAN, broken=BAD)
    check = world.measured()
    assert (check.evidence, check.own_tests, world.played.places) == ("proved", None, ["/clean", "/broken"])


def test_tests_that_the_report_of_the_start_has_are_none_of_the_run() -> None:
    """Where the work renamed something, old tests do not even load in the checkout."""
    before = replace(BAD, data={"test_report": "r0"})
    left = replace(LEFT, data={**LEFT.data, "tests_new": ["own1"]})
    world = World(written(), before, clean=BAD, left=left, bare_own=WITHOUT, mutant0=BAD, mutant1=BAD)
    check = world.measured()
    assert check.own_tests is not None
    assert (check.evidence, check.own_tests.names) == ("claimed", ("own1",))
    assert check.why.endswith("The only test that the run wrote holds without its work as well: own1.")


def test_after_a_check_that_failed_its_tests_are_still_those_of_the_run() -> None:
    """The list that the first check of a result kept is none of the start."""
    left = replace(LEFT, data={**LEFT.data, "tests_new": []})
    world = World(written(), clean=CLEAN, left=[BAD, left], bare=BAD, bare_own=BAD)
    world.checkouts.faults = []
    check = world.measured()
    assert check.own_tests is not None
    assert (check.own_tests.count, check.own_tests.ran_without) == (2, False)


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("before", "there", "evidence"),
    [
        (GOOD, reported(BAD, a="passed", own1="failed", own2="passed"), "supported"),
        (GOOD, reported(BAD, a="failed", own1="passed", own2="passed"), "contradicted"),
        (GOOD, LEFT, "contradicted"),
        (GOOD, NOT_THERE, "contradicted"),
        (GOOD, HANGS, "contradicted"),
        (BAD, reported(BAD, a="passed", own1="failed", own2="passed"), "contradicted"),
    ],
)
def test_tests_of_the_run_support_what_those_of_the_start_do_not_look_at(
    before: ToolResult, there: ToolResult, evidence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never more than that; and where red tests turned green, they look at something else than the work."""
    monkeypatch.setattr(checkout_runs, "AGAIN_AT_LEAST_S", 1.0)
    checkouts = written(broken=BROKEN, faults=[])
    world = World(checkouts, before, clean=CLEAN, left=LEFT, broken=GOOD, broken_own=there, bare_own=WITHOUT)
    check = world.measured()
    assert check.evidence == evidence
    assert check.why.endswith("1 of 2 tests that the run wrote hold without its work as well: own1.")
    alone = "Only tests that the run wrote fail when the functions that it changed raise an error: a.py: add. "
    assert check.why.startswith(alone) is (evidence == "supported")


@pytest.mark.spec("X4")
def test_what_is_flaky_is_not_supported_by_tests_of_the_run() -> None:
    world = World(written(broken=BROKEN), GOOD, clean=[BAD, CLEAN], left=LEFT, broken=GOOD)
    check = world.measured()
    assert (check.evidence, check.own_tests) == ("contradicted", None)


def test_a_mutant_that_never_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout_runs, "AGAIN_AT_LEAST_S", 1.0)
    world = World(written(), clean=CLEAN, left=LEFT, bare=BAD, bare_own=WITHOUT, mutant0=HANGS, mutant1=LEFT)
    own = world.measured().own_tests
    assert own is not None
    assert (own.mutants, own.unnoticed) == (2, (FAULTS[1],))


def test_beyond_its_budget_what_was_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_tests, "BUDGET_S", 2.0)
    world = World(written(), clean=CLEAN, left=LEFT, bare=BAD, bare_own=WITHOUT, mutant0=LEFT, mutant1=HANGS)
    check = world.measured()
    assert check.own_tests is not None
    assert (check.evidence, check.own_tests.ran_without) == ("proved", True)
    assert (check.own_tests.mutants, check.own_tests.unnoticed) == (1, (FAULTS[0],))


def test_no_more_mutants_are_tried_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(
        written(faults=[f"a.py:{line}: x" for line in range(20)]),
        clean=CLEAN, left=LEFT, bare=BAD, bare_own=WITHOUT, **{f"mutant{number}": BAD for number in range(20)},
    )  # fmt: skip
    own = world.measured().own_tests
    assert own is not None
    assert own.mutants == 8


def test_trying_tests_of_the_run_does_not_outlive_a_stop() -> None:
    world = World(written(), clean=CLEAN, left=LEFT, bare=BAD, bare_own=WITHOUT, mutant0=HANGS)
    world.played.heard = lambda: world.send("stop")
    assert world.drive() == "ended"
    assert (world.state.end_reason, world.checkouts.asked[-1]) == ("operator_stop", "leave")
    assert world.journal.of(f.ChecksCompleted) == []


def test_trying_tests_of_the_run_begins_again_after_a_pause() -> None:
    world = World(written(), clean=CLEAN, left=LEFT, bare=BAD, bare_own=WITHOUT, mutant0=[HANGS, BAD], mutant1=BAD)
    world.played.heard = lambda: world.send("pause")
    assert world.drive() != "ended"
    assert world.journal.of(f.ChecksCompleted) == []
    world.send("resume")
    own = world.measured().own_tests
    assert own is not None
    assert (own.mutants, own.unnoticed) == (2, ())
