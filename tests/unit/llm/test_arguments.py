"""Whatever a model writes as arguments: a storable object, or an error in words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.llm.arguments import parse_arguments
from loops.llm.text import StreamCleaner, clean_json, clean_text, is_clean

pytestmark = pytest.mark.spec("C3")

ANY_TEXT = st.text(alphabet=st.characters(codec=None), max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(ANY_TEXT, JSON, max_size=4) | JSON)
def test_arguments_are_storable_or_refused(value: object) -> None:
    arguments, error = parse_arguments(json.dumps(value))
    json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    assert "\\u0000" not in json.dumps(arguments)
    assert is_clean(error)
    assert not (arguments and error)


@settings(deadline=None)
@given(ANY_TEXT)
def test_no_text_crashes_the_parser(text: str) -> None:
    parse_arguments(text)


@pytest.mark.parametrize("depth", [65, 2000, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    assert "nested deeper" in parse_arguments('{"a":' + "[" * depth + "]" * depth + "}")[1]


def test_nothing_at_all_means_no_arguments() -> None:
    assert parse_arguments("  ") == ({}, "")


@settings(deadline=None)
@given(ANY_TEXT, st.integers(1, 5))
def test_cleaning_in_pieces_is_cleaning_the_whole(text: str, size: int) -> None:
    cleaner = StreamCleaner()
    pieces = [cleaner.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(pieces) + cleaner.finish() == clean_text(text)


@settings(deadline=None)
@given(JSON)
def test_clean_json_can_be_encoded(value: object) -> None:
    json.dumps(clean_json(value), ensure_ascii=False).encode()
