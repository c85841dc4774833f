"""Canonical JSON bytes (RFC 8785) and what cannot be written in them, found early and named precisely."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import rfc8785

from loops.engine.text.truncation import shortened
from loops.engine.values import Json

_LARGEST_INTEGER = 2**53 - 1


class NotCanonical(ValueError):
    """The value has no canonical form; the message says where and why, fit for the model that sent it."""


def canonical(value: Json) -> bytes:
    """RFC 8785 bytes of ``value``. Raises NotCanonical."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotCanonical(str(error)) from error


def digest(value: Json) -> str:
    """SHA-256 (hex) over the canonical bytes. Raises NotCanonical."""
    return hashlib.sha256(canonical(value)).hexdigest()


def problems(value: Json, max_depth: int) -> list[str]:
    """Why ``value`` cannot be bound to an approval: too deep, NaN, an integer beyond 2^53, a lone surrogate.

    Iterative, so that depth 100,000 costs a sentence and not the worker's stack.
    """
    found: list[str] = []
    waiting: list[tuple[str, Json, int]] = [("", value, 1)]
    while waiting and len(found) < 5:
        where, item, depth = waiting.pop()
        if depth > max_depth:
            return [f"{shortened(where, 120) or '/'}: nested deeper than {max_depth} levels"]
        if isinstance(item, Mapping):
            found += [f"{where}/: a key has a lone surrogate" for key in item if _broken(key)]
            waiting += [(f"{where}/{key}", inner, depth + 1) for key, inner in item.items()]
        elif isinstance(item, Sequence) and not isinstance(item, str):
            waiting += [(f"{where}/{index}", inner, depth + 1) for index, inner in enumerate(item)]
        else:
            found += [f"{where or '/'}: {reason}" for reason in _scalar_problem(item)]
    return found


def _scalar_problem(item: object) -> list[str]:
    if isinstance(item, str):
        return ["text has a lone surrogate, which no file or database can hold"] if _broken(item) else []
    if isinstance(item, bool) or item is None:
        return []
    if isinstance(item, int):
        return [] if abs(item) <= _LARGEST_INTEGER else ["integer beyond 2^53; send it as a string"]
    if isinstance(item, float):
        return [] if math.isfinite(item) else ["NaN and Infinity are not JSON"]
    return [f"{type(item).__name__} is not JSON"]


def _broken(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
