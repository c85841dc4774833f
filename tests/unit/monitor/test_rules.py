"""What the monitor takes for silence and for runaway spend, state by state; each with its check switched off."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from loops.engine import facts as f
from loops.engine.encoding.fingerprints import mark
from loops.engine.loop_detection.finding import Finding
from loops.engine.state.limits import Limits
from loops.engine.state.step_window import LENGTH
from loops.monitor.policy import Policy
from loops.monitor.queries import RunSeen
from loops.monitor.rules import notice
from loops.monitor.state import Memory
from tests.fakes import spec
from tests.unit.engine.test_loop_detection import FOUND

pytestmark = pytest.mark.spec("F2")
POLICY = Policy()
NEVER = replace(
    POLICY, untaken_s=1e9, lapsed_s=1e9, model_s=1e9, tool_s=1e9, other_s=1e9,
    usd_per_minute=0, tokens_per_minute=0, pace=0,
)  # fmt: skip
RUN = RunSeen(
    id=uuid.UUID(int=1), seq=9, status="thinking", owned=True, step=4, tokens=1000, cost_microusd=1000,
    idle_s=1.0, lapsed_s=-10.0, now=1000.0,
)  # fmt: skip
LIMITS = Limits(max_seconds=600, max_cost_microusd=5_000_000)


def memory(*samples: tuple[float, int, int]) -> Memory:
    """``samples``: seconds ago, dollars in millionths and tokens by then."""
    made = Memory(limits=LIMITS)
    for ago, cost, tokens in samples:
        made.sample(replace(RUN, now=RUN.now - ago, cost_microusd=cost, tokens=tokens), POLICY)
    return made


WRONG: dict[str, tuple[RunSeen, Memory, str]] = {
    "nobody takes it": (replace(RUN, owned=False, lapsed_s=None, idle_s=61), memory(), "untaken"),
    "its worker is frozen": (replace(RUN, lapsed_s=11), memory(), "hung_worker"),
    "a model call that never ends": (replace(RUN, idle_s=721), memory(), "silent"),
    "a tool that never ends": (replace(RUN, status="executing_tool", idle_s=7_261), memory(), "silent"),
    "between two effects": (replace(RUN, status="initializing", idle_s=121), memory(), "silent"),
    "money": (
        replace(RUN, cost_microusd=2_100_000),
        Memory(limits=replace(LIMITS, max_cost_microusd=100_000_000), samples=memory((60, 0, 0)).samples),
        "runaway_spend",
    ),
    "tokens": (replace(RUN, tokens=1_100_000), memory((60, 0, 0)), "runaway_spend"),
    "its own budget": (
        replace(RUN, cost_microusd=1_900_000),
        Memory(limits=replace(LIMITS, max_cost_microusd=2_000_000), samples=memory((60, 100_000, 0)).samples),
        "runaway_spend",
    ),
}
RIGHT: dict[str, tuple[RunSeen, Memory]] = {
    "it waits for its folder": (replace(RUN, status="waiting_for_resource", idle_s=100_000), memory()),
    "just queued": (replace(RUN, owned=False, lapsed_s=None, idle_s=5), memory()),
    "a lease that just ran out": (replace(RUN, lapsed_s=3), memory()),
    "a long model call": (replace(RUN, idle_s=700), memory()),
    "the longest criterion": (replace(RUN, status="executing_tool", idle_s=7_200), memory()),
    "a burst that is too short to judge": (replace(RUN, cost_microusd=2_000_000), memory((5, 0, 0))),
    "steady spending": (replace(RUN, cost_microusd=500_000), memory((60, 0, 0))),
    "fast, but hardly begun": (replace(RUN, cost_microusd=1_000_000), memory((30, 0, 0))),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_noticed(name: str) -> None:
    run, remembered, method = WRONG[name]
    found = [noticed.finding for noticed in notice(run, remembered, POLICY)]
    assert [(finding.method, finding.steps) for finding in found] == [(method, (4,))]


@pytest.mark.parametrize("name", WRONG)
def test_with_its_check_off_it_is_not(name: str) -> None:
    run, remembered, _ = WRONG[name]
    assert list(notice(run, remembered, NEVER)) == []


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name: str) -> None:
    run, remembered = RIGHT[name]
    assert list(notice(run, remembered, POLICY)) == []


def test_the_memory_of_a_run_stays_small() -> None:
    made = memory()
    made.learn(f.StepCompleted(step=step, success=True) for step in range(1000))
    for second in range(1000):
        made.sample(replace(RUN, now=float(second)), POLICY)
    assert len(made.window) == LENGTH
    assert made.samples[-1].at - made.samples[1].at <= 2 * POLICY.rate_over_s


def test_bounds_that_a_person_extended_count() -> None:
    made = Memory()
    start = f.RunStarted(spec=spec(limits=LIMITS), system="", prompt_version="", tools_sha256="")
    granted = f.GateDecided(gate="g", kind="limit_reached", verdict="extend", payload={"max_cost_usd": 9})
    made.learn([start, granted, replace(granted, verdict="reject", payload={"max_cost_usd": 99})])
    assert made.limits.max_cost_microusd == 9_000_000
    assert made.limits.max_seconds == 600


def test_a_circle_that_the_run_found_by_itself_is_no_news() -> None:
    made = memory()
    made.learn(f.StepCompleted(step=step, success=True, action=mark("a"), outcome=mark("b")) for step in range(1, 5))
    assert [noticed.finding.method for noticed in notice(RUN, made, POLICY)] == ["semantic"]
    made.learn([f.LoopDetected(method="repeated_result", evidence="", steps=(2, 3, 4))])
    assert list(notice(RUN, made, POLICY)) == []


@pytest.mark.parametrize(
    ("circle", "method", "kind"),
    [
        ("nearly the same in a row", "semantic", "loop"),
        ("no progress", "progress_stall", "stall"),
    ],
)
def test_a_circle_that_the_run_does_not_see_is_noticed(circle: str, method: str, kind: str) -> None:
    made = Memory(limits=LIMITS, window=FOUND[circle][1])
    assert [(noticed.kind, noticed.finding.method) for noticed in notice(RUN, made, POLICY)] == [(kind, method)]


def test_a_circle_in_other_words_counts_until_the_run_finds_it_itself_or_goes_on() -> None:
    meant = Finding("same_meaning", "cosine 0.97", (1, 2, 3, 4), 0.7)
    for news, told in (
        ([], ["same_meaning"]),
        ([f.LoopDetected(method="semantic", evidence="", steps=(3, 4))], []),
        ([f.StepCompleted(step=5, success=True)], []),
    ):
        made = memory()
        made.meant = meant
        made.learn(news)
        assert [noticed.finding.method for noticed in notice(RUN, made, POLICY)] == told


def test_of_meanings_no_more_is_kept_than_of_steps() -> None:
    made = memory()
    for step in range(1, 100):
        made.learn([f.StepCompleted(step=step, success=True, action=mark(f"{step}"), outcome=mark(f"{step}"))])
        assert made.unread() == [step]
        made.understand({step: None})
    assert list(made.meanings) == [seen.step for seen in made.window]


def test_a_finding_that_overlaps_with_an_earlier_one_is_no_news() -> None:
    made, finding = Memory(), next(notice(WRONG["money"][0], WRONG["money"][1], POLICY)).finding
    assert made.is_news(replace(finding, steps=(1, 2, 3)))
    assert not made.is_news(replace(finding, steps=(2, 3, 4)))
    assert made.is_news(replace(finding, steps=(4, 5)))
    assert made.is_news(replace(finding, method="other", steps=(2, 3)))


def test_a_run_whose_tests_stay_as_they_are_is_noticed_and_one_without_tests_is_not() -> None:
    """Twelve steps without progress mean something only where tests or checks measure it (SPEC F2, G1)."""
    for method, kinds in (("tests", ["stall"]), ("checks", ["stall"]), ("artifacts", []), ("model", [])):
        made = memory()
        made.learn(f.StepCompleted(step=n, success=True, progress=0.5, progress_method=method) for n in range(1, 14))
        assert [noticed.kind for noticed in notice(RUN, made, POLICY)] == kinds
