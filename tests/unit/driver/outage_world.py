"""Runs that share breakers in memory, by one clock: the pure machine with the least around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from loops.driver import Ports
from loops.engine.failures import breakers as b
from tests import fakes

MAIN = "scripted"
"""The model that runs of ``fakes`` want."""


class Shared:
    """Breakers of a plant. ``working`` are the runs that a worker has just now."""

    def __init__(self, clock: fakes.Clock, rule: b.Rule | None = None) -> None:
        self.clock, self.rule = clock, rule or b.Rule()
        self.rows: dict[tuple[str, str], b.Breaker] = {}
        self.working: set[str] = set()

    def row(self, kind: str, name: str) -> b.Breaker:
        return self.rows.get((kind, name), b.Breaker())

    def now(self) -> int:
        return int(self.clock.time * 1e6)


class Seen:
    """Port Breakers of one run."""

    def __init__(self, shared: Shared, who: str) -> None:
        self.shared, self.who = shared, who

    def _admitted(self, kind: str, name: str) -> b.Breaker | None:
        row = self.shared.row(kind, name)
        return b.admit(row, self.shared.now(), self.who, row.probe in self.shared.working)

    def refuses(self, kind: str, name: str) -> b.Refusal | None:
        return None if self._admitted(kind, name) else b.refusal(self.shared.row(kind, name), name)

    def admit(self, kind: str, name: str) -> b.Admitted | b.Refusal:
        after = self._admitted(kind, name)
        if after is None:
            return b.refusal(self.shared.row(kind, name), name)
        self.shared.rows[kind, name] = after
        return b.Admitted(probe=after.status is b.Status.HALF_OPEN)

    def failed(self, kind: str, name: str, why: str, wait_s: float = 0.0) -> None:
        row = self.shared.row(kind, name)
        self.shared.rows[kind, name] = b.failed(row, self.shared.rule, self.shared.now(), self.who, why, wait_s)

    def succeeded(self, kind: str, name: str) -> None:
        self.shared.rows[kind, name] = b.succeeded(self.shared.row(kind, name), self.who)


class World(fakes.World):
    """``chain``: the model wanted, and its fallbacks."""

    def __init__(
        self,
        models: Any,
        tools: fakes.Tools | None = None,
        *,
        chain: Sequence[str] = (MAIN,),
        shared: Shared | None = None,
        name: str = "",
        **changes: Any,
    ) -> None:
        super().__init__(models, tools, **changes)
        self.chain, self.name = tuple(chain), name or "w"
        if shared is not None:
            self.clock = shared.clock
        self.shared = shared or Shared(self.clock)

    def ports(self) -> Ports:
        seen = Seen(self.shared, self.name)
        return replace(super().ports(), breakers=seen, fallbacks=lambda model: self.chain)

    def drive(self) -> str:
        self.shared.working.add(self.name)
        try:
            return super().drive()
        finally:
            self.shared.working.discard(self.name)

    def wait(self, until: Callable[[str], bool] = lambda why: why != "timer", shifts: int = 200) -> str:
        """Come back whenever the run is to be woken, as the sweeper does."""
        for _ in range(shifts):
            why = self.drive()
            if until(why):
                return why
            self.clock.time = max(self.clock.time, self.journal.released[-1][0] / 1e6)
        raise AssertionError(f"still {why}")
