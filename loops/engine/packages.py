"""What installed packages offer by entry points. One that is broken stops nobody else, and is heard of: in the log,
by ``manage.py doctor``, on the page Tools, and by whoever wants to use what it should have brought."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Broken:
    """``kind``: tool or loop. ``name``: that of the entry point. ``package``: its distribution with the version."""

    kind: str
    name: str
    package: str
    reason: str

    def __str__(self) -> str:
        """One line for people."""
        return f"the {self.kind} {self.name!r} of the package {self.package} cannot be used: {self.reason}"


def load(group: str, kind: str, take: Callable[[str, Callable[[], Any]], None]) -> list[Broken]:
    """Hand each entry point of ``group`` to ``take``: its name, and what loads its object. Returns those that failed;
    ``take`` has then left everything as it was."""
    failed = []
    for entry in entry_points(group=group):
        try:
            take(entry.name, entry.load)
        except (Exception, SystemExit) as error:  # of somebody else's code: whatever it raises is its own fault
            reason = str(error) if isinstance(error, UnfitError) else f"{type(error).__name__}: {error}"
            broken = Broken(kind, entry.name, package_of(entry), reason.strip())
            log.error("%s", broken)
            failed.append(broken)
    return failed


class UnfitError(Exception):
    """What a package offers is not what its entry point is for; the message says what is missing."""


def package_of(entry: EntryPoint) -> str:
    """The distribution with its version, as far as it is known."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
