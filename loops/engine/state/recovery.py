"""What a run remembers of its failures: calls that failed, the present approach, and what is to follow (SPEC E1-E4).

Plain bounded values inside the state; ``recovery`` says what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILED_REMEMBERED = 64
"""Failed calls that are not run again; the oldest is forgotten first."""
ATTEMPTS_REMEMBERED = 12
"""Calls of one approach that its reflection names."""
GIVEN_UP_REMEMBERED = 10


@dataclass(frozen=True)
class FailedCall:
    """A call that failed, and with nothing changed since would fail again. ``outcome`` is short and quoted."""

    fingerprint: str
    outcome: str
    times: int = 1
    sent_back: int = 0
    """How often it was proposed again and not run."""
    transient: bool = False
    """It failed for something that passes: the same call may be tried again, a few times."""


@dataclass(frozen=True)
class Attempt:
    """One call of an approach, for the reflection on it. ``arguments`` and ``outcome`` are short and quoted."""

    step: int
    call_id: str
    tool: str
    arguments: str
    outcome: str = ""
    ok: bool = False
    files: tuple[str, ...] = ()
    """Paths that it changed, by its own arguments."""


@dataclass(frozen=True)
class RecoveryState:
    failed: tuple[FailedCall, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """Calls of the failed steps in a row that make up the present approach."""
    failed_steps: int = 0
    backtracks: int = 0
    given_up: tuple[str, ...] = ()
    """One line for each approach that was left."""
    errors_in_row: int = 0
    must_reflect: bool = False
    reflected: bool = False
    """The latest answer holds the reflection that was asked for."""
    next: str = ""
    """The recovery that is to be performed before the next request; empty to go on."""
    why: str = ""
    """The failure that ``next`` is about, in one line for people."""
    rule: str = ""
    person_can_help: bool = False
    wait_for: int = 0
    """Number of the transient failure to wait for; 0 when nothing is to be waited for."""
    strayed: bool = False
    """It named a place that it may not touch; nothing ran. Once is a slip."""
    best_progress: float = 0.0
    confirmed_at: int = 0
    """The step at which a person last let a long task go on (SPEC D4)."""


NOTHING_FAILED = RecoveryState()
