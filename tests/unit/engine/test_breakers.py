"""Circuit breakers: one probe, opened exactly at the threshold, closed by a good probe, by one clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.failures import breakers as b
from loops.engine.failures.breakers import Breaker, Rule, Status
from loops.engine.values import FailureKind, ToolResult
from tests.unit.engine.effort import examples

pytestmark = pytest.mark.spec("E5")

S = 1_000_000
RULE = Rule(threshold=3, window_s=60, cooldown_s=30)
NOW = 1_000 * S


def opened(now: int = NOW) -> Breaker:
    breaker = Breaker()
    for _ in range(RULE.threshold):
        breaker = b.failed(breaker, RULE, now, "w", "timeout")
    assert breaker.status is Status.OPEN
    return breaker


def probing(breaker: Breaker, who: str = "w1") -> Breaker:
    taken = b.admit(breaker, breaker.open_until, who, False)
    assert taken is not None
    return taken


@pytest.mark.parametrize("threshold", [1, 2, 5])
def test_it_opens_exactly_at_the_threshold(threshold: int) -> None:
    rule, breaker = replace(RULE, threshold=threshold), Breaker()
    seen = []
    for number in range(threshold):
        breaker = b.failed(breaker, rule, NOW + number * S, f"w{number}", "crash")
        seen.append(breaker.status)
    assert seen == [Status.CLOSED] * (threshold - 1) + [Status.OPEN]
    assert breaker.open_until == NOW + (threshold - 1 + 30) * S


def test_failures_that_lie_apart_do_not_open_it() -> None:
    breaker = Breaker()
    for number in range(20):
        breaker = b.failed(breaker, RULE, NOW + number * 30 * S, "w", "timeout")
    assert breaker.status is Status.CLOSED


def test_a_success_forgets_the_failures_before_it() -> None:
    breaker = b.failed(b.failed(Breaker(), RULE, NOW, "w", "x"), RULE, NOW, "w", "x")
    assert b.succeeded(breaker, "another") == Breaker()


def test_open_refuses_until_its_cooldown_is_over() -> None:
    breaker = opened()
    assert b.admit(breaker, breaker.open_until - 1, "w", False) is None
    assert probing(breaker).probe == "w1"


def test_only_the_probe_is_let_pass_and_it_may_ask_again() -> None:
    half = probing(opened())
    assert b.admit(half, half.open_until + S, "w2", True) is None
    assert b.admit(half, half.open_until + S, "w1", True) is half


def test_the_probe_of_a_worker_that_is_gone_is_anybodys() -> None:
    half = probing(opened())
    taken = b.admit(half, half.open_until + S, "w2", False)
    assert taken is not None
    assert taken.probe == "w2"
    assert b.succeeded(taken, "w1") is taken, "the one who lost it decides nothing any more"
    assert b.failed(taken, RULE, NOW, "w1", "late") is taken


def test_a_good_probe_closes_and_a_failed_one_waits_twice_as_long() -> None:
    half = probing(opened())
    assert b.succeeded(half, "w1") == Breaker()
    waits = []
    for _ in range(8):
        now = half.open_until
        again = b.failed(half, RULE, now, "w1", "timeout")
        waits.append((again.open_until - now) // S)
        half = probing(again)
    assert waits == [60, 120, 240, 480, 900, 900, 900, 900]
    assert half.opened_at == NOW


def test_the_other_sides_wish_is_respected_within_reason() -> None:
    breaker = b.failed(Breaker(), replace(RULE, threshold=1), NOW, "w", "429", wait_s=120)
    assert breaker.open_until == NOW + 120 * S
    breaker = b.failed(Breaker(), replace(RULE, threshold=1), NOW, "w", "429", wait_s=1e9)
    assert breaker.open_until == NOW + b.LONGEST_COOLDOWN_S * S


def test_late_news_of_calls_begun_before_change_nothing() -> None:
    breaker = opened()
    assert b.failed(breaker, RULE, NOW, "w9", "late") is breaker
    assert b.succeeded(breaker, "w9") is breaker


def test_a_rule_that_is_off_counts_nothing() -> None:
    off = replace(RULE, enabled=False, threshold=1)
    assert b.failed(Breaker(), off, NOW, "w", "x") == Breaker()


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (ToolResult(ok=True, content=""), ""),
        (ToolResult(ok=False, content="", error="no such file", kind=FailureKind.SYSTEMATIC), ""),
        (ToolResult(ok=False, content="", error="exit code 1", exit_code=1), ""),
        (ToolResult(ok=False, content="", error="took too long", fault="timeout"), "timeout"),
    ],
)
def test_only_faults_of_the_tool_itself_count(result: ToolResult, fault: str) -> None:
    assert b.tool_fault(result) == fault


@pytest.mark.parametrize(("kind", "counts"), [("transient", True), ("unrecoverable", True), ("systematic", False)])
def test_a_request_refused_for_what_it_says_is_no_fault_of_the_model(kind: str, counts: bool) -> None:
    assert b.model_is_at_fault(FailureKind(kind)) is counts


def test_a_refusal_tells_since_when_until_when_why_and_what_to_do() -> None:
    said = b.told(b.refusal(opened(), "fetch_url"), NOW + 9 * S)
    assert "fetch_url" in said
    assert "timeout" in said
    assert "00:16:40 UTC" in said
    assert "00:17:10 UTC (21 s from now)" in said
    assert "another way" in said
    assert "another run tries" in b.told(b.refusal(probing(opened()), "fetch_url"), NOW)


# --- whatever workers do ---------------------------------------------------------------------------------------------

WORKERS = st.sampled_from(["w0", "w1", "w2", "w3"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "good", "bad", "die", "wait"]), WORKERS, st.integers(0, 45)), max_size=80
)


class Plant:
    """Workers around one breaker. ``calling``: who is in the middle of a call, and whether as the probe."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.now, self.breaker = rule, NOW, Breaker()
        self.calling: dict[str, bool] = {}
        self.in_a_row: list[int] = []

    def ask(self, who: str) -> None:
        if who in self.calling:
            return
        lives = self.breaker.probe in self.calling
        after = b.admit(self.breaker, self.now, who, lives)
        if after is not None:
            self.breaker = after
            self.calling[who] = after.status is Status.HALF_OPEN

    def good(self, who: str) -> None:
        if who in self.calling:
            probe, before = self.calling.pop(who), self.breaker
            self.breaker = b.succeeded(before, who)
            assert not probe or before.probe != who or self.breaker == Breaker(), "a good probe closes"
            self.in_a_row = []

    def bad(self, who: str) -> None:
        if who not in self.calling:
            return
        del self.calling[who]
        before = self.breaker
        self.breaker = b.failed(before, self.rule, self.now, who, "x")
        if before.status is Status.CLOSED:
            self.in_a_row = [at for at in self.in_a_row if self.now - at < self.rule.window_s * S] + [self.now]
            assert (self.breaker.status is Status.OPEN) == (len(self.in_a_row) >= self.rule.threshold)
        if self.breaker.status is Status.OPEN:
            self.in_a_row = []

    def die(self, who: str) -> None:
        self.calling.pop(who, None)


@examples(usual=300, full=5000)
@given(STEPS, st.integers(1, 4))
def test_there_are_never_two_probes(steps: list[tuple[str, str, int]], threshold: int) -> None:
    plant = Plant(replace(RULE, threshold=threshold))
    for what, who, seconds in steps:
        if what == "wait":
            plant.now += seconds * S
        else:
            getattr(plant, what)(who)
        probes = [name for name, probe in plant.calling.items() if probe and name == plant.breaker.probe]
        late = [name for name, probe in plant.calling.items() if probe and name != plant.breaker.probe]
        assert len(probes) <= 1
        assert not late, "a second probe was let pass while the first was under way"


def test_the_check_notices_a_second_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a machine that thinks every probe is dead lets a second one pass."""
    real = b.admit
    monkeypatch.setattr(b, "admit", lambda breaker, now, who, lives: real(breaker, now, who, False))
    steps = [("ask", "w0", 0), ("bad", "w0", 0), ("wait", "w0", 45), ("ask", "w1", 0), ("ask", "w2", 0)]
    with pytest.raises(AssertionError, match="second probe"):
        test_there_are_never_two_probes.hypothesis.inner_test(steps, 1)
