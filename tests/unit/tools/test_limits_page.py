"""Operations shows the limits of tools as they are (SPEC I7, X5)."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from loops.tools.limits import GIB, KIB, MIB, Limits

pytestmark = pytest.mark.spec("I7", "X5")
PAGE = Path(__file__).resolve().parents[3] / "agentops/docs/operations.md"
UNITS = {"MB": 10**6, "KiB": KIB, "MiB": MIB, "GiB": GIB}


def test_every_limit_stands_there_in_order_with_its_figure() -> None:
    table = PAGE.read_text().partition("### Limits of tools and commands")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| [^|]+ \| ([\d,]+)(?: (\w+))?[^|]* \| [^|]+ \|$", table, re.MULTILINE)
    shown = [int(figure.replace(",", "")) * UNITS.get(unit, 1) for figure, unit in cells]
    limits = Limits()
    assert shown == [getattr(limits, one.name) for one in fields(Limits) if one.name != "protected"]
