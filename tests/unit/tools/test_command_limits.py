"""One table of what a command may use, and nothing beside it (SPEC I7, S1)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from loops.engine.measures.limits import LARGEST_BOUND
from loops.engine.state.command_limits import COMMAND_LIMITS, DEFAULTS, CommandLimits
from loops.tools.builtin import builtin_registry
from loops.tools.limits import Limits, within

pytestmark = pytest.mark.spec("I7", "S1")


@pytest.mark.parametrize("name", COMMAND_LIMITS)
def test_every_row_is_complete(name: str) -> None:
    row = COMMAND_LIMITS[name]
    assert row.label
    assert row.help
    assert row.low < getattr(DEFAULTS, name) <= row.high <= LARGEST_BOUND
    assert within(replace(DEFAULTS, **{name: row.high})) != Limits(), "it bounds nothing"


def test_what_everybody_begins_with_is_what_it_was() -> None:
    assert within(DEFAULTS) == Limits()
    assert {one.name for one in fields(CommandLimits)} == set(COMMAND_LIMITS)
    assert Limits().command_max_s == COMMAND_LIMITS["command_seconds"].high, "no default that may not be asked for"


def test_what_would_be_met_first_follows() -> None:
    larger = within(CommandLimits(criterion_seconds=1_200, command_memory_mib=6_144, workspace_mib=4_096))
    assert larger.cpu_s > larger.criterion_s
    assert larger.address_space_bytes > larger.memory_bytes
    assert larger.largest_file_bytes > Limits().workspace_bytes


def test_no_figure_of_one_project_is_told_to_the_models_of_all() -> None:
    found: Any = builtin_registry().get("run_command")
    told = found.tool.spec.parameters["properties"]["timeout_s"]
    assert told["maximum"] == Limits().command_max_s
    assert "120" not in told["description"]
