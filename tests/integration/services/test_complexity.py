"""The estimate of complexity: pure, and every point of it has a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.limits.complexity import LEVELS, estimate

pytestmark = pytest.mark.spec("D2")


@pytest.mark.parametrize(
    ("goal", "criteria", "level"),
    [
        ("Write hello.txt with a greeting.", 0, "simple"),
        ("Fix the typo in README.md", 1, "simple"),
        ("Fix the rounding bug, add a test and document the rule.", 2, "moderate"),
        ("Refactor the payment module and migrate every caller.", 3, "moderate"),
        ("Refactor the payment module, migrate every caller and keep the old API.", 3, "complex"),
        ("Refactor the payment module, migrate every caller and keep the old API.", 0, "moderate"),
        ("Build a small service. " + "It must handle orders. " * 80, 6, "complex"),
    ],
)
def test_levels(goal, criteria, level):
    assert estimate(goal, ["criterion"] * criteria).level == level


def test_reasons_add_up_to_the_score():
    found = estimate("Migrate the entire archive, then test it", ["a", "b", "c"], "No downtime\nNo data loss")
    assert sum(int(reason.rsplit("+", 1)[1]) for reason in found.reasons) == found.score
    assert all(reason in found.explained for reason in found.reasons)


@given(st.text(max_size=2_000), st.lists(st.text(max_size=20), max_size=60), st.text(max_size=200))
def test_any_text_gets_a_level(goal, criteria, constraints):
    assert estimate(goal, criteria, constraints).level in LEVELS


@given(st.text(max_size=500), st.integers(0, 20))
def test_more_criteria_never_make_a_task_easier(goal, count):
    assert estimate(goal, ["x"] * count).score <= estimate(goal, ["x"] * (count + 1)).score
