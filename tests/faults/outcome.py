"""What one promise was put through, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Found:
    """Harm by kind; each entry says what and where."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __iadd__(self, other: Found) -> Found:
        self.lost += other.lost
        self.doubled += other.doubled
        self.broken += other.broken
        return self

    @property
    def all(self) -> list[str]:
        return [*self.lost, *self.doubled, *self.broken]


class TimedOut(Exception):
    """Something went on for longer than any machine needs. That proves neither that a promise is kept nor that a
    control failed as it must."""


@dataclass
class Outcome:
    """``control`` says how the same test failed with the guard off; empty means it did not, and proves nothing.
    ``late`` says what took so long that there is no telling."""

    promise: str
    faults: int = 0
    found: Found = field(default_factory=Found)
    control: str = ""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    late: str = ""

    @property
    def held(self) -> bool:
        return not self.found.all and not self.late and bool(self.control) and self.faults > 0


Promise = Callable[[int], "list[Outcome]"]
HEAD = f"{'promise':<8}{'faults':>7}{'lost':>6}{'doubled':>9}{'broken':>8}{'seconds':>9}  control failed as it must"


def line(outcome: Outcome) -> str:
    found = outcome.found
    numbers = f"{len(found.lost):>6}{len(found.doubled):>9}{len(found.broken):>8}{outcome.seconds:>9.1f}"
    control = f"TIMED OUT: {outcome.late}" if outcome.late else outcome.control or "NO: the control did not fail"
    return f"{outcome.promise:<8}{outcome.faults:>7}{numbers}  {control[:110]}"


def told(outcome: Outcome) -> str:
    """The line, what was noted, and the first harms found."""
    more = [f"          {note}" for note in outcome.notes] + [
        f"        ! {harm[:400]}" for harm in outcome.found.all[:12]
    ]
    return "\n".join([line(outcome), *more])


def first_harm(once: Callable[[], Found], word: str, tries: int) -> str:
    """Do it until harm with ``word`` in it is found; "" when there was none. Other harm may be a busy machine's."""
    for _ in range(tries):
        for harm in once().all:
            if word in harm:
                return harm.partition(": ")[2]
    return ""
