"""When is an error the same error again?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.repetition import error_signature, identical_errors
from loops.engine.state import RunState
from tests.fakes import spec
from tests.unit.engine.effort import examples


def state(*errors: str) -> RunState:
    return replace(RunState(spec=spec(), limits=spec().limits), recent_errors=errors)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no file /tmp/a at 0x7fff12", "no file /tmp/a at 0x12ab"),
        ("line 12: expected 3 of 4", "line 7: expected 1 of 2"),
        ("took 1.25 s", "took 0.5 s"),
        ("  Not Found ", "not found"),
    ],
)
def test_numbers_addresses_and_case_make_no_difference(one: str, other: str) -> None:
    assert error_signature("look", one) == error_signature("look", other)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(("tool", "error"), [("look", "no such directory"), ("write", "no such file"), ("look", "")])
def test_another_error_or_another_tool_is_another_signature(tool: str, error: str) -> None:
    assert error_signature(tool, error) != error_signature("look", "no such file")


@examples(usual=60, full=1000)
@given(st.text(), st.text(st.characters(exclude_categories=[])))
def test_any_error_has_a_short_signature(tool: str, error: str) -> None:
    assert len(error_signature(tool, error)) == 16
    assert error_signature(tool, error) == error_signature(tool, error)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ((), False),
        (("a", "a"), False),
        (("a", "a", "a"), True),
        (("b", "a", "a", "a"), True),
        (("a", "a", "b"), False),
        (("a", "b", "a"), False),
    ],
)
def test_three_in_a_row_are_a_loop(errors: tuple[str, ...], found: bool) -> None:
    assert bool(identical_errors(state(*errors))) is found


@pytest.mark.parametrize("in_row", [1, 2, 4])
def test_how_many_is_a_setting(in_row: int) -> None:
    assert not identical_errors(state(*["a"] * (in_row - 1)), in_row)
    assert str(in_row) in identical_errors(state(*["a"] * in_row), in_row)
