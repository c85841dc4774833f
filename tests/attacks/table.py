"""The list of attacks, read from ``attacks.md``: a new attack is a line there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).with_name("attacks.md")
_ROW = re.compile(r"\| (?P<number>\d+) \| (?P<what>.+?) \| .+? \| (?:(?P<tests>`.+`)|not built: (?P<missing>.+)) \|")


class Unreadable(Exception):
    """A line of the page is neither prose nor an attack."""


@dataclass(frozen=True, slots=True)
class Attack:
    """``tests`` are files below ``tests``; without any, ``missing`` says what is not built yet."""

    number: int
    what: str
    tests: tuple[str, ...]
    missing: str


def read(page: str) -> tuple[Attack, ...]:
    """All attacks of the page. Raises Unreadable."""
    return tuple(_attack(line) for line in page.splitlines() if re.match(r"\| *\d", line))


def _attack(line: str) -> Attack:
    cells = _ROW.fullmatch(line)
    if cells is None:
        raise Unreadable(line)
    tests = cells["tests"].strip("`").split("` `") if cells["tests"] else ()
    return Attack(int(cells["number"]), cells["what"].replace("`", ""), tuple(tests), cells["missing"] or "")


ATTACKS = read(PAGE.read_text())
