"""When do two steps count as the same, and when as nearly the same?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.encoding.fingerprints import (
    HEAD,
    TAIL,
    action_mark,
    error_signature,
    exact_part,
    mark,
    outcome_mark,
    result_mark,
    shortened,
    similarity,
)
from loops.engine.values import ToolCall
from tests.unit.engine.effort import examples

pytestmark = pytest.mark.spec("F1")
ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no file /tmp/a at 0x7fff12", "no file /tmp/a at 0x12ab"),
        ("line 12: expected 3 of 4", "line 7: expected 1 of 2"),
        ("took 1.25 s", "took 0.5 s"),
        ("  Not Found ", "not found"),
    ],
)
def test_numbers_addresses_and_case_make_no_other_error(one: str, other: str) -> None:
    assert error_signature("look", one) == error_signature("look", other)


@pytest.mark.parametrize(("tool", "error"), [("look", "no such directory"), ("write", "no such file"), ("look", "")])
def test_another_error_or_another_tool_is_another_signature(tool: str, error: str) -> None:
    assert error_signature(tool, error) != error_signature("look", "no such file")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done at 2026-01-02 03:04:05", "done at 2026-11-22T06:07:08.123Z"),
        ("3 passed in 0.12s", "3 passed in 4.56s"),
        ("object at 0x7f00", "object at 0x7fff"),
        ("id 6f0f9a4e-0b7e-4f6a-9a35-7a7c0f6f1b11", "id 00000000-0b7e-4f6a-9a35-7a7c0f6f1b11"),
        ("wrote /tmp/tmpab12/x", "wrote /tmp/tmpcd34/x"),
        ("a  b\n", "a b"),
    ],
)
def test_what_changes_each_time_is_no_news(one: str, other: str) -> None:
    assert exact_part(result_mark(one)) == exact_part(result_mark(other))


@pytest.mark.parametrize(
    ("one", "other"), [("3 passed", "4 passed"), ("page 1", "page 2"), ("", "x"), ("x = 1", "x = 2")]
)
def test_another_number_is_news(one: str, other: str) -> None:
    assert exact_part(result_mark(one)) != exact_part(result_mark(other))


def test_the_order_of_arguments_makes_no_other_call() -> None:
    one, other = ToolCall("a", "look", {"x": 1, "y": 2}), ToolCall("b", "look", {"y": 2, "x": 1})
    assert action_mark([one]) == action_mark([other])
    assert action_mark([one]) != action_mark([ToolCall("a", "look", {"x": 1, "y": 3})])


def test_the_middle_of_a_long_text_counts_too() -> None:
    long = "a " * HEAD + "b" + " c" * TAIL
    assert result_mark(long) == result_mark(long)
    assert exact_part(result_mark(long)) != exact_part(result_mark(long.replace("b", "d")))
    assert exact_part(result_mark(shortened(long))) == exact_part(result_mark(long))


def test_an_unknown_result_makes_the_outcome_unknown() -> None:
    assert outcome_mark([]) == outcome_mark(["", mark("x")]) == ""
    assert outcome_mark([mark("x")]) == mark("x")
    assert exact_part(outcome_mark([mark("x"), mark("y")])) != exact_part(outcome_mark([mark("y"), mark("x")]))


def test_similarity_grows_with_what_is_shared() -> None:
    words = [f"word{number}" for number in range(40)]
    same = mark(" ".join(words))
    near = mark(" ".join([*words[:-4], "other", "words", "stand", "here"]))
    far = mark(" ".join(f"else{number}" for number in range(40)))
    assert similarity(same, same) == 1.0
    assert 1.0 > similarity(same, near) > 0.5 > similarity(same, far)


@examples(usual=60, full=1000)
@given(ANY_TEXT, ANY_TEXT)
def test_marks_are_short_and_comparable_whatever_the_text(one: str, other: str) -> None:
    assert len(error_signature(one, other)) == 16
    assert len(result_mark(one)) == len(mark(other)) == 16 + 1 + 44
    assert 0.0 <= similarity(result_mark(one), mark(other)) <= 1.0
    assert similarity(one, other) in (0.0, 1.0) or "." in one
