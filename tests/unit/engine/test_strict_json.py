"""JSON of others means the same to every reader, or is refused in words for whoever wrote it (SPEC X5)."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.engine.encoding.strict_json import MAX_DEPTH, NotJson, read

pytestmark = pytest.mark.spec("X5")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(PLAIN)
def test_ordinary_json_is_read_as_it_is(value: object) -> None:
    assert read(json.dumps(value)) == value
    assert read(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is given twice; give it once"),
        ('[{"a": {"b": 1, "b": 1}}]', "the key 'b' is given twice"),
        (f'{{"{"k" * 500}": 1, "{"k" * 500}": 2}}', r"… \(500 characters\)' is given twice"),
        ("NaN", "NaN is not JSON; use null or a string"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ('{"a": }', "not valid JSON: Expecting value at character 6, near "),
        ("", "not valid JSON"),
        ("9" * 5_000, r"the integer 9+… \(5,000 characters\) is beyond"),
        (b'"\xff"', "not UTF-8"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH} levels"),
        ("[" * 200_000, f"nested deeper than {MAX_DEPTH} levels"),
    ],
    ids=str,
)
def test_what_readers_could_take_in_two_ways_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(NotJson, match=why):
        read(text)


def test_as_deep_as_is_allowed_is_read() -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH)


@settings(deadline=None)
@given(st.text() | st.binary())
def test_whatever_comes_is_read_or_refused(text: str | bytes) -> None:
    with suppress(NotJson):
        read(text)
