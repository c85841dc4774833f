"""Tools in fewer words, for models with little room (SPEC U1). What a call may hold stays the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loops.engine.values import Json, ToolSpec

LONGEST = 80
"""Characters of a description."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s")
_BOUNDS = {"minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "pattern", "additionalProperties"}
_SAID = frozenset(_BOUNDS | {"description", "title", "default", "examples", "$schema"})
"""Of a schema, what explains or what the checks of a call enforce anyway: a call that breaks it is sent back with the
reason."""


def shortened(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The first sentence of each description, and schemas without explanations."""
    return tuple(
        replace(spec, description=_first_sentence(spec.description), parameters=_bare(spec.parameters))
        for spec in specs
    )


def _first_sentence(text: str) -> str:
    first = _SENTENCE.split(" ".join(text.split()), maxsplit=1)[0].rstrip(";")
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 1].rsplit(' ', 1)[0]}…"


def _bare(schema: Mapping[str, Json]) -> dict[str, Any]:
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            bare[key] = {name: _bare(inner) if isinstance(inner, Mapping) else inner for name, inner in value.items()}
        elif key not in _SAID and value != []:
            bare[key] = _bare(value) if isinstance(value, Mapping) else value
    return bare
