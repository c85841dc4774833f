"""What the tests that a run wrote are worth, for people (SPEC X4). Names are the run's own words: pages escape them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loops.engine.text.truncation import shortened

SHOWN, LONGEST_NAME = 5, 120


def in_words(own: Mapping[str, Any] | None) -> str:
    """Of ``OwnTests`` as plain data, without what is at its default; "" where nothing was tried."""
    own = own if isinstance(own, Mapping) else {}
    return " ".join(filter(None, (_without_the_work(own), _on_mutants(own))))


def _without_the_work(own: Mapping[str, Any]) -> str:
    count, held = int(own.get("count") or 0), int(own.get("hold_without_count") or 0)
    if not count:
        return ""
    new = f"{count:,} new test{'' if count == 1 else 's'}"
    if not own.get("ran_without"):
        return f"{new}; whether they fail without the work was not tried."
    if not held:
        return f"{new}: {'it fails' if count == 1 else 'all fail'} without the work."
    passes = f"{held:,} of them passes" if held == 1 else f"{held:,} of them pass"
    names = _listed(own.get("hold_without") or (), held)
    return f"{new}, {passes} without the work{f': {names}' if names else ''}."


def _on_mutants(own: Mapping[str, Any]) -> str:
    tried, unnoticed = int(own.get("mutants") or 0), own.get("unnoticed") or ()
    if not tried:
        return ""
    found = f"{max(tried - len(unnoticed), 0):,} of {tried:,} small change{'' if tried == 1 else 's'} of the work"
    missed = f"; not noticed: {_listed(unnoticed, len(unnoticed))}" if unnoticed else ""
    return f"{found} {'was' if tried == 1 else 'were'} noticed{missed}."


def _listed(names: Sequence[Any], count: int) -> str:
    shown = [shortened(" ".join(str(name).split()), LONGEST_NAME) for name in names[:SHOWN]]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if shown and more > 0 else "")
