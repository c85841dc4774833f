"""A model's tool arguments from untrusted JSON text: either a plain object that anything can store, or a precise error.

Refused, with the place and the remedy in the message: what ``strict_json`` refuses, numbers that other readers cannot
hold (integers beyond 2**53, infinities), NUL and lone surrogates in strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from loops.engine.encoding import strict_json
from loops.engine.encoding.strict_json import NotJson
from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.llm.text import clean_text, is_clean

MAX_INTEGER = 2**53


def parse_arguments(text: str) -> tuple[Mapping[str, Json], str]:
    """(arguments, ""), or ({}, error)."""
    if not text.strip():
        return {}, ""
    try:
        value = parse_json(text)
    except NotJson as bad:
        return {}, clean_text(f"the arguments can't be used: {bad}")
    if not isinstance(value, dict):
        return {}, f"the arguments must be one JSON object, not {_kind(value)}"
    return cast(Mapping[str, Json], value), ""


def parse_json(text: str) -> Json:
    """Strict JSON that anything can store. Raises NotJson."""
    value = strict_json.read(text)
    _inspect(value, "$")
    return value


def _inspect(value: Any, path: str) -> None:
    if isinstance(value, str):
        _inspect_text(value, path)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise NotJson(f"the integer {shortened(str(value), 40)} at {path} is beyond 2**53; write it as a string")
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise NotJson(f"the number at {path} is too large")
    elif isinstance(value, dict):
        for key, item in value.items():
            _inspect_text(key, path)
            _inspect(item, f"{path}.{shortened(key, 40)}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _inspect(item, f"{path}[{at}]")


def _inspect_text(text: str, path: str) -> None:
    if is_clean(text):
        return
    what = "a NUL character" if "\0" in text else "half of a surrogate pair"
    raise NotJson(f"the text at {path} holds {what}; send plain Unicode text")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names: Sequence[tuple[type, str]] = ((bool, "a boolean"), (int, "a number"), (float, "a number"), (str, "a string"))
    return next((name for kind, name in names if isinstance(value, kind)), "an array")
