"""Operations shows the limits of tools as they are (SPEC I7, X5)."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from loops.engine.state.command_limits import COMMAND_LIMITS, DEFAULTS
from loops.tools.limits import GIB, KIB, MIB, Limits

pytestmark = pytest.mark.spec("I7", "X5")
PAGE = Path(__file__).resolve().parents[3] / "agentops/docs/operations.md"
UNITS = {"MB": 10**6, "KiB": KIB, "MiB": MIB, "GiB": GIB}


OF_PROJECTS = {
    "kept_bytes",
    "workspace_bytes",
    "workspace_files",
    "criterion_s",
    "command_s",
    "memory_bytes",
    "processes",
}


def section() -> str:
    return PAGE.read_text().partition("### Limits of tools and commands")[2].partition("\n## ")[0]


def test_every_limit_stands_there_in_order_with_its_figure() -> None:
    cells = re.findall(r"^\| [^|]+ \| ([\d,]+)(?: (\w+))?[^|]* \| [^|]+ \|$", section(), re.MULTILINE)
    shown = [int(figure.replace(",", "")) * UNITS.get(unit, 1) for figure, unit in cells]
    limits, left_out = Limits(), {"protected", "stated", *OF_PROJECTS}
    assert shown == [getattr(limits, one.name) for one in fields(Limits) if one.name not in left_out]


@pytest.mark.spec("S1")
def test_what_a_project_sets_stands_there_with_its_bounds() -> None:
    cells = re.findall(r"^\| `(\w+)`: [^|]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| [^|]+ \|$", section(), re.MULTILINE)
    shown = [(name, *(int(one.replace(",", "")) for one in amounts)) for name, *amounts in cells]
    assert shown == [(name, getattr(DEFAULTS, name), row.low, row.high) for name, row in COMMAND_LIMITS.items()]
    assert len(OF_PROJECTS) == len(COMMAND_LIMITS)
