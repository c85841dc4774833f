"""JSON as strangers send it: size, duplicate keys, NaN and depth are checked while it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer

from loops.engine.text.truncation import quoted

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64


class TooLarge(APIException):
    """A body that is not worth reading to its end."""

    status_code = 413
    default_detail = f"The body is larger than {MAX_BYTES:,} bytes."
    default_code = "too_large"


class StrictJSONParser(JSONParser):
    """Accepts one JSON value that means the same to every reader of it."""

    media_type = "application/json"
    renderer_class = JSONRenderer

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Read at most MAX_BYTES and refuse what readers could disagree about."""
        raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TooLarge
        try:
            value = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            raise ParseError("The body is not UTF-8.") from error
        except RecursionError as error:
            raise ParseError(f"The body is nested deeper than {MAX_DEPTH} levels.") from error
        except ValueError as error:
            raise ParseError(f"The body is not acceptable JSON: {error}") from error
        if _depth_over(value, MAX_DEPTH):
            raise ParseError(f"The body is nested deeper than {MAX_DEPTH} levels.")
        return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {quoted(key, 100)} appears twice in one object")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _depth_over(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True
