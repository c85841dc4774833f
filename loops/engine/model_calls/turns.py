"""The port through which calls take turns at an endpoint that answers only so many at once (SPEC E6)."""

from __future__ import annotations

from typing import Protocol


class Turns(Protocol):
    """The turns as one owned run sees them. A turn belongs to this ownership: when its lease is over, it is free."""

    def take(self, model: str) -> int:
        """Take a turn at the endpoint of ``model``, or a place in the line for it. How many calls come first: 0 with
        the turn taken. Whoever asks again keeps the place it has."""
        ...

    def parked(self) -> None:
        """The run is parked now; it is rung for at once where its turn came while it was not yet."""
        ...

    def leave(self) -> None:
        """Give back the turn, or the place in the line; whoever is next is rung for."""
        ...


class NoLine:
    """Everybody may ask at once."""

    def take(self, model: str) -> int:
        return 0

    def parked(self) -> None:
        return

    def leave(self) -> None:
        return
