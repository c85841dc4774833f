"""What a run knows of models that do not answer, and how long it waits for them (SPEC E6)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.encoding.replace import evolve

MAX_SECONDS_PARKED = 24 * 3600
"""A run that no model answered for so long, all in all, ends as ``model_unavailable``."""


@dataclass(frozen=True)
class Outage:
    """Since the latest answer; an answer forgets it all."""

    given_up: tuple[str, ...] = ()
    """Models whose attempts are used up, or that refused for good: the next of the chain was asked instead."""
    probes: int = 0
    """Failed requests that the present model got as the probe of its breaker."""
    why: str = ""
    said: str = ""
    """The latest failure in the words of the model's provider, with the model's name."""
    model: str = ""
    """The one that is waited for."""
    since: int = 0
    until: int = 0
    """The run is parked until then, in microseconds since the epoch; 0 while it is not."""
    waited_us: int = 0

    @property
    def is_open(self) -> bool:
        """A request of this step has failed."""
        return bool(self.given_up) or self.probes > 0


NO_OUTAGE = Outage()


def let_go(outage: Outage) -> Outage:
    """A person acts: what was waited for is looked at anew."""
    return evolve(outage, since=0, until=0)
