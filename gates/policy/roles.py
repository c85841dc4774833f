"""Who may decide which gate (SPEC Q6, S4). One function names the objections; none means yes."""

from __future__ import annotations

from dataclasses import dataclass

from gates.policy.kinds import GATE_KINDS, By
from gates.policy.verdicts import lets

REVIEWERS = frozenset({"reviewer", "admin"})
OPERATORS = frozenset({"operator", "reviewer", "admin"})

BY_REQUESTER = frozenset(kind for kind, row in GATE_KINDS.items() if row.by is By.REQUESTER)
"""Kinds that ask what was meant: whoever submitted the task may answer, while they may still operate the project."""

BY_OPERATORS = frozenset(kind for kind, row in GATE_KINDS.items() if row.by is By.OPERATORS)
"""Kinds about a run that has ended: whoever may stop and resume runs of the project decides what becomes of it."""

APPROVING = (
    frozenset(kind for kind, row in GATE_KINDS.items() if any(lets(kind, one) for one in row.verdicts)) - BY_OPERATORS
)
"""Kinds that can let something happen: the own-approval rule is about these. What operators may order without any gate
(resuming, undoing) is no approval."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the moment of deciding: read from the database then, never from the page."""

    roles: frozenset[str] = frozenset()
    is_active: bool = True
    is_superuser: bool = False
    is_requester: bool = False
    has_shaped: bool = False
    """They forked the run, wrote to it, edited what it does, answered it or let it go on past a bound."""


def objections(person: Person, kind: str, verdict: str = "", *, own_approval_allowed: bool = True) -> list[str]:
    """Why ``person`` may not decide a gate of ``kind`` (or give this ``verdict``); empty means they may."""
    if not person.is_active:
        return ["This account is not active."]
    if not _has_role(person, kind):
        wanted = "operator, reviewer or admin" if kind in BY_OPERATORS else "reviewer or admin"
        return [f"Deciding this needs the role {wanted} in the project."]
    own = (person.is_requester or person.has_shaped) and not own_approval_allowed
    if own and kind in APPROVING and (not verdict or lets(kind, verdict)):
        did = "submitted this task" if person.is_requester else "forked, messaged, edited or answered this run"
        return [f"You {did}, and the project's policy asks for another person's approval: ask another reviewer."]
    return []


def _has_role(person: Person, kind: str) -> bool:
    if person.is_superuser or person.roles & REVIEWERS:
        return True
    asked = kind in BY_OPERATORS or (person.is_requester and kind in BY_REQUESTER)
    return asked and bool(person.roles & OPERATORS)
