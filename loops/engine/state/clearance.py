"""Which commands a person let run on which state of the workspace, for the sake of acceptance criteria (SPEC Q5)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from loops.engine.values import Json


def words_of(subject: Mapping[str, Json]) -> str:
    """The command that ``subject`` binds, with the folder it runs in; "" where it binds none."""
    match subject:
        case {"tool": "run_tests", "arguments": {"argv": [*shell, str(line)]}, "cwd": {"directory": str(folder)}}:
            command = line.partition("\n")[2]  # the first line says where runners report to
            return f"{folder}$ {shlex.join([*map(str, shell), command])}"
        case {"arguments": {"argv": [*argv]}, "cwd": {"directory": str(folder)}}:
            return f"{folder}$ {shlex.join(map(str, argv))}"
    return ""


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a person said of a ``command``, for the workspace whose hash is ``stands``."""

    command: str
    stands: str
    gate: str = ""
    used: bool = False
    """The approval of ``gate`` was used up; the same command may be begun again while the workspace stands so."""
    refused: str = ""
    """Why it may not run; "" where it may."""

    @property
    def is_open(self) -> bool:
        """Approved, and the approval not used up yet."""
        return not self.used and not self.refused


CLEARED_KEPT = 50
"""Commands that a person approved; about one of before a person is asked again."""


@dataclass(frozen=True, slots=True)
class Clearance:
    """Commands of acceptance criteria, where commands are asked about (SPEC Q5, ADR 0052)."""

    trusted: str = ""
    """Hash of the workspace as the run found it, or as checks left that; "" where it is not known whole, or where what
    it found may be another run's."""
    asked: str = ""
    """The command that the open gate is about."""
    stands: str = ""
    again: int = 0
    """How often the workspace had changed since an approval when it was to be used."""
    said: tuple[Cleared, ...] = ()

    def of(self, command: str) -> Cleared | None:
        """What was said of ``command``, the latest."""
        return next((one for one in self.said if one.command == command), None)

    def moved(self, found: str, left: str) -> Clearance:
        """After checks that found the workspace so and left it so."""
        if not found or not left:
            return self
        said = tuple(replace(one, stands=left) if one.stands == found else one for one in self.said)
        return replace(self, said=said, trusted=left if self.trusted == found else self.trusted)

    def now(self, cleared: Cleared) -> tuple[Cleared, ...]:
        """``said`` with this in place of what was said of the same command."""
        return (*(one for one in self.said if one.command != cleared.command), cleared)[-CLEARED_KEPT:]


NOTHING_CLEARED = Clearance()
