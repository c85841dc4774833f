"""The table of guards, read from ``guards.md``: a new guard is a line there."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_name("guards.md")
_SECTION = re.compile(r"## `(?P<package>[\w.]+)`, tested in `(?P<folder>[\w/]+)`(?P<slow>, slowly)?")
_GUARD = re.compile(
    r"\| `(?P<name>[\w.]+)` \| (?P<row>[A-Z]\d+) "
    r"\| (?:says `(?P<says>[^`]+)`|`(?P<was>[^`]+)` -> (?:`(?P<becomes>[^`]+)`|nothing)) \| (?P<tests>`.+`) \|"
)


class Unreadable(Exception):
    """A line of the page is neither prose nor a guard."""


@dataclass(frozen=True, slots=True)
class Guard:
    """``path`` of a function or constant, the ``row`` of the specification that it keeps, and tests of which one has to
    fail without it. Switched off it ``says`` something else, or ``was`` in its source ``becomes`` something else."""

    path: str
    row: str
    tests: tuple[str, ...]
    says: str = ""
    was: str = ""
    becomes: str = ""
    slow: bool = False
    """Its tests need servers or the sandbox."""

    @property
    def switched_off(self) -> str:
        """How, in words."""
        return f"says {self.says}" if self.says else f"{self.was.strip()} -> {self.becomes.strip() or 'nothing'}"


def read(page: str) -> tuple[Guard, ...]:
    """All guards of the page. Raises Unreadable."""
    found, section = list[Guard](), {"package": "", "folder": "", "slow": None}
    for line in page.splitlines():
        if heading := _SECTION.fullmatch(line):
            section = heading.groupdict()
        elif line.startswith("| `"):
            found.append(_guard(line, section))
    return tuple(found)


def _guard(line: str, section: dict[str, str | None]) -> Guard:
    cells = _GUARD.fullmatch(line)
    if cells is None:
        raise Unreadable(line)
    tests = (posixpath.normpath(f"{section['folder']}/{test}") for test in cells["tests"].strip("`").split("` `"))
    return Guard(
        path=f"{section['package']}.{cells['name']}",
        row=cells["row"],
        tests=tuple(tests),
        says=cells["says"] or "",
        was=cells["was"] or "",
        becomes=cells["becomes"] or "",
        slow=section["slow"] is not None,
    )


GUARDS = read(PAGE.read_text())
