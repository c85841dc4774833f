"""The short form of tools and prompt for small windows: fewer words, the same calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loops.engine.context_window.short_tools import shortened
from loops.llm import prompts
from loops.tools.builtin import builtin_registry

pytestmark = pytest.mark.spec("U1")
SPECS = tuple(builtin_registry().specs())


def names(schema: Any) -> list[tuple[str, list[str]]]:
    """What a call may hold, level by level."""
    found = []
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            found.append((",".join(schema["properties"]), list(schema.get("required", []))))
        found += [one for value in schema.values() for one in names(value)]
    return found


def test_a_call_may_hold_the_same() -> None:
    for full, short in zip(SPECS, shortened(SPECS), strict=True):
        assert full.name == short.name
        assert names(dict(full.parameters)) == names(dict(short.parameters))
        assert short.description
        assert len(short.description) <= 80


def test_what_is_no_schema_keyword_stays() -> None:
    (search,) = (spec for spec in shortened(SPECS) if spec.name == "search_files")
    assert "pattern" in search.parameters["properties"]  # type: ignore[operator]


def test_the_short_form_leaves_most_of_a_small_window_to_the_work() -> None:
    """Bytes, of which three to four are a token: the long form alone is most of a window of 4,096."""

    def size(specs: Any, prompt: str) -> int:
        tools = [{"name": s.name, "description": s.description, "parameters": dict(s.parameters)} for s in specs]
        return len(json.dumps(tools)) + len(prompts.load(prompt).text)

    long, short = size(SPECS, "react"), size(shortened(SPECS), "react_small")
    assert short < long / 2.2
    assert short / 3.5 < 4096 / 3
