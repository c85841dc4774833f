"""A model's tool arguments from untrusted JSON text: either a plain object that anything can store, or a precise error.

Refused, with the place and the remedy in the message: broken JSON, duplicate keys, NaN and infinities, integers that
lose digits in other readers (beyond 2**53), nesting beyond ``MAX_DEPTH``, NUL and lone surrogates in strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from loops.engine.text.truncation import quoted
from loops.engine.values import Json
from loops.llm.text import clean_text, is_clean

MAX_DEPTH = 64
MAX_INTEGER = 2**53


class BadArguments(ValueError):
    """What is wrong, in words for the model."""


def parse_arguments(text: str) -> tuple[Mapping[str, Json], str]:
    """(arguments, ""), or ({}, error)."""
    if not text.strip():
        return {}, ""
    try:
        value = parse_json(text)
    except BadArguments as bad:
        return {}, clean_text(f"the arguments can't be used: {bad}")
    if not isinstance(value, dict):
        return {}, f"the arguments must be one JSON object, not {_kind(value)}"
    return cast(Mapping[str, Json], value), ""


def parse_json(text: str) -> Json:
    """Strict JSON. Raises BadArguments."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    except json.JSONDecodeError as bad:
        raise BadArguments(f"not valid JSON: {bad.msg} at character {bad.pos}, near {_near(text, bad.pos)}") from None
    except RecursionError:
        raise BadArguments(f"nested deeper than {MAX_DEPTH} levels") from None
    _inspect(value, "$", 0)
    return cast(Json, value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise BadArguments(f"the key {quoted(key, 80)} is given twice; give it once")
        result[key] = value
    return result


def _constant(name: str) -> Any:
    raise BadArguments(f"{name} is not JSON; use null or a string")


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise BadArguments(f"the integer {digits[:40]} is beyond 2**53; write it as a string")
    return int(digits)


def _inspect(value: Any, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadArguments(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _inspect_text(value, path)
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise BadArguments(f"the number at {path} is too large")
    elif isinstance(value, dict):
        for key, item in value.items():
            _inspect_text(key, path)
            _inspect(item, f"{path}.{key[:40]}", depth + 1)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _inspect(item, f"{path}[{at}]", depth + 1)


def _inspect_text(text: str, path: str) -> None:
    if is_clean(text):
        return
    what = "a NUL character" if "\0" in text else "half of a surrogate pair"
    raise BadArguments(f"the text at {path} holds {what}; send plain Unicode text")


def _near(text: str, position: int) -> str:
    return repr(text[max(0, position - 20) : position + 20])


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names: Sequence[tuple[type, str]] = ((bool, "a boolean"), (int, "a number"), (float, "a number"), (str, "a string"))
    return next((name for kind, name in names if isinstance(value, kind)), "an array")
