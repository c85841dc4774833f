"""JSON Schema of somebody else's, judged in bounded time and without Python's ``re`` (SPEC I2, L1). Pure.

A schema is a program: references multiply, patterns run, every branch that fails describes its whole value. So each
keyword is paid for from a budget before it runs, by what it may cost at most, and a judgement that would cost more is
refused as one that nobody can make. The same schema and document always cost the same, on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from loops.engine.text.patterns import BadPattern, Pattern, regular_expression, work

BUDGET = 100_000_000
"""For one judgement: about two seconds of a processor. One keyword costs ``_KEYWORD``, a character to describe 1."""
_KEYWORD = 300
_LONGEST_PATTERN = 1_000
_SHOWN = 80
_LONGEST_REASON = 200
_WHOLE_VALUE = frozenset({"enum", "const", "not", "oneOf"})
"""Keywords that compare with the value they have in the schema, or describe it."""
_SQUARE = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""Keywords that look for each part among all parts."""
_TOGETHER = frozenset({"patternProperties", "unevaluatedProperties"})

Schema = Mapping[str, Any] | bool
Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class BadSchema(ValueError):
    """A schema that is not one, refers to another document, or says what cannot be judged in bounded time."""


class Unjudgeable(Exception):
    """Nobody can say whether the document fits: it would take too long, or the schema leads nowhere."""


@dataclass(slots=True)
class _Budget:
    left: int
    depth: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    patterns: dict[str, Pattern] = field(default_factory=dict)

    def pay(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise Unjudgeable("judging it takes too long: the schema and the document are too large for each other")

    def size(self, value: Any) -> int:
        """Characters that describing the value takes, about; containers are measured once."""
        if isinstance(value, str):
            return len(value) + 2
        if isinstance(value, int) and not isinstance(value, bool):
            return 8 + value.bit_length() // 3
        if not isinstance(value, Mapping | list | tuple):
            return 20
        if id(value) not in self.sizes:
            self._measure(value)
        return self.sizes[id(value)]

    def _measure(self, value: Any) -> None:
        waiting = [(value, False)]
        while waiting:
            item, parts_known = waiting.pop()
            parts = list(item.values()) if isinstance(item, Mapping) else item
            if parts_known:
                names = sum(len(str(name)) + 4 for name in item) if isinstance(item, Mapping) else 0
                self.sizes[id(item)] = 2 + names + sum(self.size(part) + 2 for part in parts)
            else:
                waiting.append((item, True))
                waiting += [(part, False) for part in parts if isinstance(part, Mapping | list | tuple)]

    def matches(self, pattern: str, text: str) -> bool:
        if pattern not in self.patterns:
            self.pay(_KEYWORD + 10 * len(pattern))
            self.patterns[pattern] = regular_expression(pattern)
        self.pay(work(self.patterns[pattern], text))
        return self.patterns[pattern].search(text) is not None


_budget: ContextVar[_Budget] = ContextVar("budget of a judgement")


@dataclass(frozen=True, slots=True)
class Checked:
    """A schema that refers to nothing elsewhere and has patterns of RE2 only: looked through once, for many
    documents."""

    validator: Any


def check(schema: Schema) -> Checked:
    """Raise BadSchema for what ``faults`` could not work with, in words for whoever wrote the schema."""
    checked = _checked(schema)
    try:
        fault = next(iter(faults(_OF_SCHEMAS, schema, keep=1)), None)
    except Unjudgeable as error:
        raise BadSchema(str(error)) from error
    if fault is not None:
        raise BadSchema(f"not a JSON Schema: {fault.json_path}: {fault.message}")
    return checked


def faults(schema: Schema | Checked, document: Any, *, keep: int, budget: int | None = None) -> list[ValidationError]:
    """The first ``keep`` things wrong with the document; empty when it fits. Raises Unjudgeable."""
    token = _budget.set(_Budget(BUDGET if budget is None else budget))
    found: list[ValidationError] = []
    try:
        checked = schema if isinstance(schema, Checked) else _checked(schema)
        for error in checked.validator.iter_errors(document):
            found.append(error)
            if len(found) == keep:
                break
    except BadSchema as error:
        raise Unjudgeable(f"the schema cannot be used: {error}") from error
    except Unjudgeable:
        raise
    except RecursionError as error:
        raise Unjudgeable("the schema refers to itself without an end, or is nested too deeply") from error
    except Exception as error:  # a reference to nothing, a number out of range: of the schema, not of the document
        raise Unjudgeable(
            f"the schema cannot be used: {str(error)[:_LONGEST_REASON] or type(error).__name__}"
        ) from error
    finally:
        _budget.reset(token)
    return found


def _refuse(schema: Schema) -> None:
    """No document from elsewhere, and no pattern that RE2 does not take."""
    waiting: list[Any] = [schema]
    used: set[str] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            _refuse_object(item)
            used |= _TOGETHER & item.keys()
            waiting += item.values()
        elif isinstance(item, Sequence) and not isinstance(item, str):
            waiting += item
    if used == _TOGETHER:  # the library looks for the names of one in the patterns of the other, by ``re``
        raise BadSchema("patternProperties and unevaluatedProperties together are not supported; use one of them")


def _refuse_object(item: Mapping[str, Any]) -> None:
    for key in ("$ref", "$dynamicRef"):
        target = item.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            raise BadSchema(f"{key} to another document is forbidden: {target[:_SHOWN]!r}; it must start with #")
    names = item.get("patternProperties")
    for pattern in (item.get("pattern"), *(names if isinstance(names, Mapping) else ())):
        if isinstance(pattern, str):
            _refuse_pattern(pattern)


def _refuse_pattern(pattern: str) -> None:
    if len(pattern) > _LONGEST_PATTERN:
        raise BadSchema(f"a pattern has {len(pattern):,} characters; at most {_LONGEST_PATTERN:,} are possible")
    try:
        regular_expression(pattern)
    except BadPattern as error:
        raise BadSchema(
            f"the pattern {pattern[:_SHOWN]!r} cannot be used: {error}. Patterns are RE2's: without look-around and "
            "back-references, so that none can hold a worker up"
        ) from error


def _paid(name: str, keyword: Keyword) -> Keyword:
    """The keyword, paid for before it runs."""

    def judge(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget = _budget.get()
        within = value if isinstance(value, list | tuple) else value.values() if isinstance(value, Mapping) else ()
        never = sum(part is False for part in within)
        cost = _KEYWORD * (1 + budget.depth // 8) + 10 * len(within) + budget.size(instance) * (1 + never)
        if name in _WHOLE_VALUE:
            cost += budget.size(value)
        if name in _SQUARE and isinstance(instance, list | Mapping):
            cost += 5 * len(instance) ** 2
        budget.pay(cost)
        budget.depth += 1  # what is wrong down there is handed up through every keyword above it
        try:
            yield from keyword(validator, value, instance, schema) or ()
        finally:
            budget.depth -= 1

    return judge


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _budget.get().matches(pattern, instance):
        yield ValidationError(f"{instance[:_SHOWN]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, Mapping):
        return
    for pattern, below in patterns.items():
        for name, value in instance.items():
            if _budget.get().matches(pattern, name):
                yield from validator.descend(value, below, path=name, schema_path=pattern)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, Mapping):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [
        name
        for name in instance
        if name not in named and not any(_budget.get().matches(pattern, name) for pattern in patterns)
    ]
    if isinstance(allowed, Mapping):
        for name in others:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and others:
        verb = "was" if len(others) == 1 else "were"
        names = ", ".join(repr(name) for name in sorted(others))
        yield ValidationError(f"Additional properties are not allowed ({names} {verb} unexpected)")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """By a table of what each item says: comparing all with all takes the square of their number."""
    if not wanted or not isinstance(instance, list):
        return
    seen: set[str] = set()
    for item in instance:
        said = json.dumps(_plain(item), sort_keys=True)
        if said in seen:
            yield ValidationError(f"{instance!r} has non-unique elements")
            return
        seen.add(said)


def _plain(value: Any) -> Any:
    """1 and 1.0 are one number in JSON."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


_OURS: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "uniqueItems": _unique,
}
_KEYWORDS = {name: _paid(name, keyword) for name, keyword in {**Draft202012Validator.VALIDATORS, **_OURS}.items()}
_Extended: Any = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


_OF_SCHEMAS = Checked(_Extended(Draft202012Validator.META_SCHEMA))


def _checked(schema: Schema) -> Checked:
    """Raises BadSchema for a schema that was stored before such were refused."""
    _refuse(schema)
    return Checked(_Extended(schema, registry=Registry()))
