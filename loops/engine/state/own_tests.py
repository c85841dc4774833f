"""What the tests that a run wrote itself are worth, as it was tried on copies of its work (SPEC L2, X4)."""

from __future__ import annotations

from dataclasses import dataclass

NAMED, UNNOTICED = 20, 10


@dataclass(frozen=True, slots=True)
class OwnTests:
    """Of the command of one criterion. Tests that were there when the run began are none of them."""

    count: int = 0
    names: tuple[str, ...] = ()
    """The first ``NAMED`` of them, in the order of their names."""
    ran_without: bool = False
    """They were run without the work: what it changed was as when the run began."""
    hold_without_count: int = 0
    hold_without: tuple[str, ...] = ()
    """The first ``NAMED`` of those that passed there all the same."""
    mutants: int = 0
    """How many small faults were put into lines that the run changed, one at a time, with the command run on each."""
    unnoticed: tuple[str, ...] = ()
    """Those on which every test passed: "sums.py:12: `<` became `<=`", at most ``UNNOTICED``."""
