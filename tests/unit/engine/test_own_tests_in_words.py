"""What tests of the run's own are worth is one sentence or two, and as long as a row has room for (SPEC X4)."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine.state.own_tests_in_words import LONGEST_NAME, in_words

pytestmark = pytest.mark.spec("X4", "Q3")
SOLD: dict[str, Any] = {"count": 4, "names": ["a", "b", "c", "d"], "ran_without": True}


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (None, ""),
        ({}, ""),
        (SOLD, "4 new tests: all fail without the work."),
        ({"count": 1, "ran_without": True}, "1 new test: it fails without the work."),
        ({"count": 2}, "2 new tests; whether they fail without the work was not tried."),
        ({"mutants": 1}, "1 of 1 small change of the work was noticed."),
        (
            SOLD | {"hold_without_count": 1, "hold_without": ["test_x"], "mutants": 6,
                    "unnoticed": ["sums.py:12: `<` became `<=`"]},
            "4 new tests, 1 of them passes without the work: test_x. "
            "5 of 6 small changes of the work were noticed; not noticed: sums.py:12: `<` became `<=`.",
        ),
        (
            SOLD | {"hold_without_count": 30, "hold_without": [f"t{n}" for n in range(20)]},
            "4 new tests, 30 of them pass without the work: t0, t1, t2, t3, t4 and 25 more.",
        ),
    ],
)  # fmt: skip
def test_they_are_said_as_they_are_worth(own: dict[str, Any] | None, words: str) -> None:
    assert in_words(own) == words


def test_names_are_bounded_and_one_line() -> None:
    names = [f"{n}\n{'x' * 10_000}" for n in range(20)]
    own = SOLD | {"hold_without_count": 20, "hold_without": names, "mutants": 10, "unnoticed": names[:10]}
    assert "\n" not in in_words(own)
    assert len(in_words(own)) < 12 * LONGEST_NAME
