"""JSON of others, read so that it means the same to every reader of it (RFC 8259, RFC 7493 section 2).

Refused: duplicate keys, of which readers take the first or the last; NaN and infinities, which are no JSON; what is
nested deeper than anything that is meant for people.
"""

from __future__ import annotations

import json
from typing import Any

from loops.engine.text.truncation import quoted, shortened
from loops.engine.values import Json

MAX_DEPTH = 64
LONGEST_INTEGER = 1_000  # digits; reading one takes the square of them


class NotJson(ValueError):
    """What is wrong and what to do about it, for whoever wrote it."""


def read(text: str | bytes, depth: int = MAX_DEPTH) -> Json:
    """The value of a whole text of JSON, UTF-8 where it is bytes. Raises NotJson."""
    try:
        value: Json = json.loads(_decoded(text), **_STRICTLY)
    except json.JSONDecodeError as error:
        near = repr(error.doc[max(0, error.pos - 20) : error.pos + 20])
        raise NotJson(f"not valid JSON: {error.msg} at character {error.pos}, near {near}") from None
    except RecursionError:
        raise NotJson(f"nested deeper than {depth} levels") from None
    if _is_deeper(value, depth):
        raise NotJson(f"nested deeper than {depth} levels")
    return value


def _decoded(text: str | bytes) -> str:
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError:
        raise NotJson("not UTF-8") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotJson(f"the key {quoted(key, 80)} is given twice; give it once")
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise NotJson(f"{name} is not JSON; use null or a string")


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise NotJson(f"the integer {shortened(digits, 40)} is beyond 2**53; write it as a string")
    return int(digits)


_STRICTLY: dict[str, Any] = {"object_pairs_hook": _object, "parse_constant": _constant, "parse_int": _integer}


def _is_deeper(value: Any, most: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        within = (one.values() if isinstance(one, dict) else one for one in level)
        level = [item for items in within for item in items if isinstance(item, dict | list)]
    return bool(level)
