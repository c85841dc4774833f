"""The guards: rows of the tables of this folder. A new guard is a line in one of them.

A guard is a piece of code that keeps something from happening: a limit, a refusal, a check, a permission. A test of it
proves nothing unless it fails without the guard. ``make controls`` takes every guard away, one at a time, runs the
tests beside it and says which were not caught.

Nothing in a row quotes source: ``guard`` is a dotted path, ``off`` a mutation that names what the code names (see
``tests/controls/mutations.py``), ``tests`` are names as pytest has them. So the script that renames something in the
code renames it here. A test may stand for all its parameters, a class for all its tests.

A test that asks the very function that is off proves nothing, and is refused, by whatever name it calls it: it has to
come in by a door, and see what the guard keeps from happening (``tests/controls/doors.py`` says what a door is).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TABLES = Path(__file__).parent
_QUICK = "tests/unit/"
_MARKS = {"slow"}
_KEYS = {"guard": str, "row": str, "off": str, "tests": list}


class Unreadable(Exception):
    """A row lacks something, or has something that no row has."""


@dataclass(frozen=True, slots=True)
class Guard:
    """``path`` of a function or constant, the ``row`` of the specification that it keeps, the mutation that switches it
    ``off``, and tests of which one has to fail without it."""

    path: str
    row: str
    off: str
    tests: tuple[str, ...] = ()
    slow: bool = False
    """Its tests need servers or the sandbox."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def read(table: str) -> tuple[Guard, ...]:
    """All guards of a table. Raises Unreadable."""
    return tuple(_guard(row) for row in tomllib.loads(table)["guards"])


def _guard(row: dict[str, Any]) -> Guard:
    if {key: type(value) for key, value in row.items() if value and key not in _MARKS} != _KEYS:
        raise Unreadable(str(row))
    slow = row.get("slow", False) or not all(test.startswith(_QUICK) for test in row["tests"])
    return Guard(row["guard"], row["row"], row["off"], tuple(row["tests"]), slow)


GUARDS = tuple(guard for table in sorted(TABLES.glob("*.toml")) for guard in read(table.read_text()))
