"""Compile a tool's JSON Schema once and explain precisely what a call got wrong (SPEC I2)."""

from __future__ import annotations

from collections.abc import Mapping

from loops.engine.encoding import json_schema
from loops.engine.encoding.json_schema import BadSchema
from loops.engine.values import Json
from loops.tools.output import clean_text

_MOST_ERRORS = 5
_LONGEST_ERROR = 300
_BUDGET = 20_000_000
"""A call is judged more than once, and its run waits meanwhile: some 0.4 seconds of a processor."""


class Validator:
    """``errors(arguments)`` -> sentences, empty when valid. Raises BadSchema when made."""

    def __init__(self, schema: Mapping[str, Json]) -> None:
        if schema.get("type") != "object":
            raise BadSchema("the parameters of a tool are an object")
        self._schema = json_schema.check(schema)

    def errors(self, arguments: Mapping[str, Json]) -> list[str]:
        try:
            found = json_schema.faults(self._schema, arguments, keep=_MOST_ERRORS + 1, budget=_BUDGET)
        except json_schema.Unjudgeable as error:
            return [clean_text(str(error))]
        said = []
        for error in found[:_MOST_ERRORS]:
            where = "/" + "/".join(str(part) for part in error.absolute_path)
            said.append(_both_ends(clean_text(f"{where}: {error.message}")))
        return [*said, "and there are more faults than these"] if len(found) > _MOST_ERRORS else said


def _both_ends(text: str) -> str:
    """Where it is at the beginning, what is wrong at the end; of a long value between them only how long it is."""
    if len(text) <= _LONGEST_ERROR:
        return text
    said = f" … ({len(text):,} characters) … "
    half = (_LONGEST_ERROR - len(said)) // 2
    return f"{text[:half]}{said}{text[-half:]}"
