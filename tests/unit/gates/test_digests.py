"""One changed field, one other digest: for every field, and for values JSON cannot carry."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from gates.policy import digests

pytestmark = pytest.mark.spec("Q5")

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
FIELDS = ("version", "run", "call", "tool", "schema_hash", "arguments", "cwd", "env_hash", "operands", "destination")
FIELDS += ("mcp", "policy_version", "view", "attempt")
SUBJECT: dict[str, Any] = {name: f"value of {name}" for name in FIELDS}
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def of(subject: Any, *, view: Any = "shown", at: datetime = AT, nonce: str = "n") -> str:
    held = digests.subject_bytes(subject)
    return digests.digest(subject=held, view=digests.view_hash(view), expires_at=at, nonce=nonce)


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=20)
@given(value=values)
def test_changing_one_field_changes_the_digest(field: str, value: Any) -> None:
    if value != SUBJECT[field]:
        assert of({**SUBJECT, field: value}) != of(SUBJECT)


@pytest.mark.parametrize("field", FIELDS)
def test_leaving_a_field_out_changes_the_digest(field: str) -> None:
    assert of({name: value for name, value in SUBJECT.items() if name != field}) != of(SUBJECT)


def test_adding_a_field_changes_the_digest() -> None:
    assert of({**SUBJECT, "more": 1}) != of(SUBJECT)


def test_view_expiry_and_nonce_are_bound() -> None:
    assert (
        len(
            {
                of(SUBJECT),
                of(SUBJECT, view="other"),
                of(SUBJECT, at=AT + timedelta(microseconds=1)),
                of(SUBJECT, nonce="m"),
            }
        )
        == 4
    )


def test_order_of_keys_and_zone_of_the_clock_do_not_matter() -> None:
    backwards = dict(reversed(SUBJECT.items()))
    assert of(backwards) == of(SUBJECT)
    assert of(SUBJECT, at=AT.astimezone(tz=None)) == of(SUBJECT)


def test_envelope_is_rfc8785() -> None:
    view = digests.view_hash("shown")
    moment = "2026-01-02T03:04:05.000678+00:00"
    envelope = {"nonce": "n", "view": view, "subject": SUBJECT, "expires_at": moment}
    import hashlib

    assert of(SUBJECT) == hashlib.sha256(rfc8785.dumps(envelope)).hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2**60, str(2**60)),
        (2**60, {"$int": str(2**60)}),
        (2**60, 2**60 + 1),
        (float("nan"), "nan"),
        (float("nan"), {"$float": "nan"}),
        (float("inf"), float("-inf")),
        ("\ud800", "\ufffd"),
        ("\ud800", {"$utf16": "eda080"}),
        ("ls ", "ls\u00a0"),
        ("ls", "ls "),
        ("a\x00", "a\u2400"),
        ({"a\x00": 1}, {"a\u2400": 1}),
        ({"$a": 1}, {"$$a": 1}),
        ({"\ud800": 1}, {"\ufffd": 1}),
        (True, 1),
        (None, ""),
        ([1, [2]], [1, 2]),
    ],
)
def test_values_that_look_alike_have_different_digests(one: Any, other: Any) -> None:
    assert of({**SUBJECT, "arguments": one}) != of({**SUBJECT, "arguments": other})


def test_nesting_that_nobody_can_review_is_refused() -> None:
    deep: Any = "bottom"
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(digests.TooDeep):
        digests.subject_bytes({"arguments": deep})


@given(view=values)
def test_hash_of_the_view_survives_storage_as_json(view: Any) -> None:
    shown = digests.shown(view)
    again = json.loads(json.dumps(shown))
    assert digests.view_hash(again) == digests.view_hash(shown)
