"""Canonical bytes: RFC 8785 for what JSON can carry, lossless and unambiguous for what it cannot."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from loops.engine.encoding import canonical
from tests.unit.engine.effort import examples

SAFE = 2**53 - 1
PROPER_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | PROPER_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PROPER_TEXT, inner, max_size=4),
    max_leaves=12,
)
ANY_TEXT = st.text(st.characters(exclude_categories=[])) | st.sampled_from(
    ["\0", "\ud800", "\udc00\ud800", "$", "$float", "$int", "$utf16", "$utf16:00", "$bytes", "$$utf16:eda080"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def slow(value: Any) -> bytes:
    return rfc8785.dumps(canonical._mapped(value))


def without_nan(value: Any) -> Any:
    """NaN equals nothing; a word in its place does."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN!"
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    return [without_nan(item) for item in value] if isinstance(value, list) else value


def unprefixed(value: Any) -> Any:
    """``value`` with keys that start with ``$`` renamed: RFC 8785 has no mapped values."""
    if isinstance(value, dict):
        return {key.replace("$", "s"): unprefixed(item) for key, item in value.items()}
    return [unprefixed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.spec("N1")
@examples(usual=150, full=3000)
@given(JSON.map(unprefixed))
@example({"é": 1, "e": 2, "\U0001f600": 3, "\ufb33": 4})
@example(["\u2028", "\x7f", "\x1f", "</script>", 1e21, 1e-7, -0.0, 333333333.33333329])
def test_it_is_rfc_8785(value: Any) -> None:
    assert canonical.encode(value) == rfc8785.dumps(value)


@pytest.mark.spec("N1")
@examples(usual=150, full=3000)
@given(ANYTHING)
def test_the_fast_road_gives_what_the_slow_one_gives(value: Any) -> None:
    assert canonical.encode(value) == slow(value)


@pytest.mark.spec("N1", "J2")
@examples(usual=150, full=3000)
@given(ANYTHING)
@example({"$float": "nan"})
@example({"$$float": {"$int": "7"}})
@example(dict.fromkeys(["\ud800", "\ufffd", "\0", "␀"], 1))
@example([2.0**53, 2.636009874088247e16, -1e20, 1e21, 2**53])
@example({"$utf16:00": 1})
def test_everything_comes_back(value: Any) -> None:
    data = canonical.encode(value)
    assert without_nan(canonical.decode(data)) == without_nan(value)
    assert canonical.encode(canonical.decode(data)) == data


@examples(usual=100, full=2000)
@given(ANYTHING)
def test_it_is_json_that_utf8_can_hold(value: Any) -> None:
    json.loads(canonical.encode(value).decode("utf-8"))


@examples(usual=60, full=1000)
@given(st.dictionaries(ANY_TEXT, st.integers(), min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical.sha256(turned) == canonical.sha256(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), '{"$float":"nan"}'),
        (float("-inf"), '{"$float":"-inf"}'),
        (2**53, '{"$int":"9007199254740992"}'),
        (-(2**53), '{"$int":"-9007199254740992"}'),
        (2**53 - 1, "9007199254740991"),
        ("\ud800", '{"$utf16":"eda080"}'),
        (b"\0a", '{"$bytes":"0061"}'),
        ("\0", '"\\u0000"'),
        ({"$x": True}, '{"$$x":true}'),
        ({"\ud800": 1}, '{"$utf16:eda080":1}'),
        ((1, (2,)), "[1,[2]]"),
        (2.0**53, "9007199254740992"),
    ],
)
def test_what_json_cannot_carry_is_shown(value: Any, text: str) -> None:
    assert canonical.encode(value).decode() == text


@examples(usual=60, full=1000)
@given(ANY_TEXT)
def test_clean_text_can_be_stored(text: str) -> None:
    cleaned = canonical.clean(text)
    assert "\0" not in cleaned
    cleaned.encode("utf-8")
    assert canonical.clean(cleaned) == cleaned


@examples(usual=60, full=1000)
@given(ANYTHING.filter(lambda value: not isinstance(value, bytes)))
def test_clean_json_is_json(value: Any) -> None:
    text = json.dumps(canonical.clean_json(_no_bytes(value)), allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in text
    text.encode("utf-8")


def _no_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _no_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_no_bytes(item) for item in value]
    return None if isinstance(value, bytes) else value


def test_clean_json_shortens_for_display() -> None:
    assert canonical.clean_json({"a": "x" * 1200}, 10) == {"a": "xxxxxxxxxx… (1,200 characters)"}
    assert canonical.clean_json("x" * 10, 10) == "x" * 10
