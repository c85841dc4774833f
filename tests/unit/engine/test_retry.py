"""Backoff: bounded, polite, and the same every time it is computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.failures.backoff import BASE_S, CAP_S, LONGEST_WISH_S, delay_s
from tests.unit.engine.effort import examples

ATTEMPTS = st.integers(1, 10_000)
WISHES = st.none() | st.floats()
SEEDS = st.text(max_size=8)


@pytest.mark.spec("E6")
@examples(usual=100, full=2000)
@given(ATTEMPTS, WISHES, SEEDS)
def test_a_delay_is_bounded_whatever_the_provider_says(attempt: int, wish: float | None, seed: str) -> None:
    assert BASE_S / 2 <= delay_s(attempt, wish, seed) <= LONGEST_WISH_S


@pytest.mark.spec("E6")
@examples(usual=100, full=2000)
@given(ATTEMPTS, SEEDS)
def test_without_a_wish_it_grows_to_its_cap_with_jitter(attempt: int, seed: str) -> None:
    ceiling = min(CAP_S, BASE_S * 2 ** min(attempt - 1, 20))
    assert ceiling / 2 <= delay_s(attempt, None, seed) <= ceiling


@pytest.mark.spec("E6")
@examples(usual=100, full=2000)
@given(ATTEMPTS, st.floats(0, LONGEST_WISH_S), SEEDS)
def test_it_is_never_sooner_than_the_provider_asked(attempt: int, wish: float, seed: str) -> None:
    assert delay_s(attempt, wish, seed) >= wish


@pytest.mark.spec("E6", "A6")
def test_a_wish_for_an_hour_is_not_followed() -> None:
    assert delay_s(1, 3600, "run") == LONGEST_WISH_S


@examples(usual=60, full=500)
@given(ATTEMPTS, WISHES, SEEDS)
def test_a_replay_waits_as_long(attempt: int, wish: float | None, seed: str) -> None:
    assert delay_s(attempt, wish, seed) == delay_s(attempt, wish, seed)


@pytest.mark.spec("E6")
def test_runs_do_not_wait_in_step() -> None:
    assert len({delay_s(4, None, f"run {number}") for number in range(100)}) == 100
