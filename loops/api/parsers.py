"""JSON as strangers send it: size, duplicate keys, NaN and depth are checked while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer

from loops.engine.encoding import strict_json

MAX_BYTES = 1024 * 1024


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
            return strict_json.read(raw)
        except strict_json.NotJson as error:
            raise ParseError(f"The body cannot be used: {error}.") from error
