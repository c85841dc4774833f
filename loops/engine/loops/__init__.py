"""Execution loops by name (SPEC B1). One file per loop; another package adds one by the entry point ``agentops.loops``.

A loop says what to do in the phases that differ between loops: how it plans and how it acts. Everything else (limits,
verification, repair, commit) is the lifecycle's and the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Protocol

from loops.engine.effects import Effect
from loops.engine.state import RunState


class LoopStrategy(Protocol):
    """The pure half of an execution loop."""

    name: str

    def plan(self, state: RunState) -> Effect:
        """What to do in PLAN, DECOMPOSE and RETRIEVE."""
        ...

    def act(self, state: RunState) -> Effect:
        """What to do in ACT and REPAIR until a result is proposed."""
        ...


class UnknownLoop(Exception):
    """No execution loop of this name is registered."""


_registered: dict[str, LoopStrategy] = {}
ENTRY_POINTS = "agentops.loops"


def register(factory: Callable[[], LoopStrategy]) -> Callable[[], LoopStrategy]:
    """Class decorator: make one instance available under its ``name``."""
    strategy = factory()
    _registered[strategy.name] = strategy
    return factory


def get(name: str) -> LoopStrategy:
    """The loop with this name. Raises UnknownLoop naming the ones there are."""
    _load()
    try:
        return _registered[name]
    except KeyError:
        raise UnknownLoop(f"no execution loop {name!r}; registered: {', '.join(sorted(_registered))}") from None


def names() -> tuple[str, ...]:
    _load()
    return tuple(sorted(_registered))


_loaded = False


def _load() -> None:
    global _loaded
    if _loaded:
        return
    _loaded = True
    from loops.engine.loops import react  # noqa: F401 - registers itself

    for point in entry_points(group=ENTRY_POINTS):
        point.load()
