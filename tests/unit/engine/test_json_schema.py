"""Schemas that are made to hold a worker up: judged in bounded time, or refused in words."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any

import pytest

from loops.engine.encoding import json_schema as js
from loops.engine.verification.checks import check_schema
from tests.fakes import spec as spec_of

MOST_S = 60.0
"""Far more than the budget takes; without it they take minutes to years."""


def doubling(keyword: str, deep: int = 60) -> dict[str, Any]:
    """Each level asks the next one twice."""
    defs: dict[str, Any] = {
        f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(deep)
    }
    return {"$defs": defs | {f"a{deep}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


TEXT = "a" * 200_000
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "pattern": ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
    "name of a property": ({"patternProperties": {"^(a+)+$": False}}, {"a" * 40 + "!": 1}),
    "names of others": ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
    "large program, long text": ({"pattern": "(a|b)*a(a|b){900}c"}, "ab" * 500_000),
    "anyOf": (doubling("anyOf"), "x"),
    "allOf": (doubling("allOf"), 1),
    "oneOf": (doubling("oneOf"), 1),
    "without an end": ({"$ref": "#"}, 1),
    "to nothing": ({"$ref": "#/$defs/none"}, 1),
    "unique among many": ({"uniqueItems": True}, [{"a": n} for n in range(60_000)]),
    "unique with one hash": ({"uniqueItems": True}, [n * (2**61 - 1) for n in range(60_000)]),
    "many descriptions": ({"anyOf": [{"type": "integer"}] * 3_000}, TEXT),
    "never, often": ({"anyOf": [False] * 3_000}, TEXT),
    "long lists compared": ({"items": {"enum": ["x" * 50] * 1_500}}, list(range(60_000))),
    "not evaluated": ({"unevaluatedItems": False, "prefixItems": [{}] * 5}, list(range(60_000))),
    "not evaluated by name": ({"unevaluatedProperties": False}, {str(n): n for n in range(60_000)}),
    "a number out of range": ({"multipleOf": 0.1}, 10**400),
}


@pytest.mark.spec("L1", "S3")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_judged_in_bounded_time(name: str) -> None:
    schema, document = HOSTILE[name]
    began = time.monotonic()
    with contextlib.suppress(js.Unjudgeable):
        js.faults(schema, document, keep=10)
    assert time.monotonic() - began < MOST_S


@pytest.mark.spec("L1", "S3")
def test_no_pattern_of_a_schema_is_run_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at submission nor later, by whichever keyword it comes."""
    ours = "^(a+)+$"

    def searched(pattern: Any, *rest: Any, **more: Any) -> Any:
        assert ours not in str(getattr(pattern, "pattern", pattern))
        return was(pattern, *rest, **more)

    was = re.compile
    for name in ("search", "match", "fullmatch", "compile"):
        monkeypatch.setattr(re, name, searched)
        was = re.compile if name == "compile" else was
    schemas: list[dict[str, Any]] = [
        {"pattern": ours},
        {"patternProperties": {ours: {}}},
        {"patternProperties": {ours: {}}, "additionalProperties": False},
        {"propertyNames": {"pattern": ours}},
        {"format": "regex", "const": ours},
        {"unevaluatedProperties": False, "properties": {"a": {"pattern": ours}}},
    ]
    for schema in schemas:
        js.check(schema)
        js.faults(schema, {"a": "aaa!", "b!": 1}, keep=10)


@pytest.mark.spec("L1", "S3")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"pattern": "(?=a)b"}, "cannot be used"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "without look-around and back-references"),
        ({"patternProperties": {"(?!x)": {}}}, "cannot be used"),
        ({"pattern": "x" * 1_001}, "at most 1,000"),
        ({"pattern": r"\pL{20}"}, "too large"),
        ({"$ref": "https://example.com/"}, "another document"),
        ({"allOf": [{"patternProperties": {"a": {}}}], "unevaluatedProperties": False}, "together"),
        ({"required": [{str(n): n} for n in range(5_000)]}, "not a JSON Schema"),
        ({"type": "wrong"}, "not a JSON Schema"),
    ],
)
def test_what_cannot_be_judged_is_refused_when_it_comes_in(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(js.BadSchema, match=re.escape(words)):
        js.check(schema)


FITTING: list[tuple[dict[str, Any], Any, bool]] = [
    ({"pattern": "^[a-z]+$"}, "abc", True),
    ({"pattern": "^[a-z]+$"}, "ab1", False),
    ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": 1, "x": "y"}, True),
    ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": "1"}, False),
    ({"patternProperties": {"^n_": {}}, "additionalProperties": False}, {"n_a": 1, "x": 1}, False),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, True),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {"a": 1, "b": 1}, False),
    ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, None, 0, False], True),
    ({"uniqueItems": True}, [1, 1.0], False),
    ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
    ({"uniqueItems": False}, [1, 1], True),
    ({"items": {"type": "object", "required": ["a"]}}, [{"a": n} for n in range(20_000)], True),
    ({"$defs": {"t": {"properties": {"of": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}, {"of": {"of": {}}}, True),
]


@pytest.mark.spec("L1")
@pytest.mark.parametrize(("schema", "document", "fits"), FITTING)
def test_ordinary_schemas_mean_what_they_meant(schema: dict[str, Any], document: Any, fits: bool) -> None:
    js.check(schema)
    assert (js.faults(schema, document, keep=5) == []) is fits


@pytest.mark.spec("L1", "E1")
def test_a_result_that_cannot_be_judged_is_put_before_a_person() -> None:
    """It is no failure of the work, so it costs no repair; also for a schema stored before it would be refused."""
    for schema in ({"pattern": "(?=a)b"}, {"$ref": "#/$defs/none"}, {"$ref": "#"}):
        found = check_schema(spec_of(output_schema=schema), '"a"')
        assert found is not None
        assert (found.status, found.obstacle) == ("error", "schema_unusable")
        assert "schema" in found.wanted


@pytest.mark.spec("L1", "S3")
def test_what_costs_too_much_is_refused_and_not_judged_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(js, "BUDGET", 1_000_000)
    found = check_schema(spec_of(output_schema=doubling("anyOf", 12)), '"a"')
    assert found is not None
    assert "takes too long" in found.detail


@pytest.mark.spec("X5")
def test_faults_of_a_result_that_are_not_named_are_hinted_at() -> None:
    found = check_schema(
        spec_of(output_schema={"items": {"type": "integer"}}), str(["x" * 5_000] * 11).replace("'", '"')
    )
    assert found is not None
    lines = found.detail.split("\n")
    assert lines[-1] == "and there are more faults than these"
    assert lines[0].endswith("characters)")
    assert len(lines) == 11
    few = check_schema(spec_of(output_schema={"items": {"type": "integer"}}), '["x"]')
    assert few is not None
    assert "more faults" not in few.detail
