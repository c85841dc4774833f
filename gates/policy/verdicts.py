"""Which verdicts a gate offers, and what each makes of it (SPEC Q4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from gates.policy.kinds import GATE_KINDS, Kind, of
from loops.engine.values import Verdict


class Status(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    ANSWERED = "answered"
    EXTENDED = "extended"
    EXPIRED = "expired"
    VOID = "void"


ALLOWED: Mapping[Kind, tuple[Verdict, ...]] = {kind: row.verdicts for kind, row in GATE_KINDS.items()}
"""What a person may say to each kind."""

RESULT: dict[Verdict, Status] = {
    Verdict.APPROVE: Status.APPROVED,
    Verdict.APPROVE_WITH_EDITS: Status.APPROVED,
    Verdict.REJECT: Status.REJECTED,
    Verdict.RESPOND: Status.ANSWERED,
    Verdict.EXTEND: Status.EXTENDED,
    Verdict.ROLL_BACK: Status.ANSWERED,
    Verdict.KEEP: Status.ANSWERED,
    Verdict.CONTINUE: Status.ANSWERED,
    Verdict.EXPIRE: Status.EXPIRED,
}
"""The state a gate is in after each verdict."""

SAID: dict[Verdict, str] = {
    Verdict.APPROVE: "approved",
    Verdict.APPROVE_WITH_EDITS: "approved with edits",
    Verdict.REJECT: "rejected",
    Verdict.RESPOND: "answered",
    Verdict.EXTEND: "extended",
    Verdict.ROLL_BACK: "rollback started",
    Verdict.KEEP: "kept",
    Verdict.CONTINUE: "continued",
    Verdict.EXPIRE: "expired",
}
"""How people read it: "approved by Ana at 14:02"."""


def again_from(kind: str, view: Mapping[str, Any], opened_at: datetime, now: datetime) -> datetime | None:
    """When a call in doubt may be begun again at the earliest, if that is later than ``now``: until then whoever began
    it may still be at it (reliability#lease). By the database's clock: a worker's may be wrong."""
    seconds = view.get("again_after_s") if kind == Kind.IN_DOUBT else None
    since = opened_at + timedelta(seconds=seconds) if isinstance(seconds, int) else now
    return since if since > now else None


class Lets(StrEnum):
    """What comes about by a verdict, and would not without it."""

    NOTHING = "nothing"
    ACTION = "the action runs, or the result is accepted"
    GOING_ON = "the paused run continues"
    UNDOING = "what the run did is undone"


LETS: dict[Verdict, Lets] = {
    Verdict.APPROVE: Lets.ACTION,
    Verdict.APPROVE_WITH_EDITS: Lets.ACTION,
    Verdict.REJECT: Lets.NOTHING,
    Verdict.RESPOND: Lets.GOING_ON,
    Verdict.EXTEND: Lets.GOING_ON,
    Verdict.ROLL_BACK: Lets.UNDOING,
    Verdict.KEEP: Lets.NOTHING,
    Verdict.CONTINUE: Lets.GOING_ON,
    Verdict.EXPIRE: Lets.NOTHING,
}
"""Whoever adds a verdict says here what it lets happen; rules about showing and about one's own work read it."""

LETTING = frozenset(verdict for verdict, what in LETS.items() if what is not Lets.NOTHING)
"""Verdicts that let something happen."""

ONLY_TELLS = frozenset({(Kind.QUESTION, Verdict.RESPOND)})
"""What the agent wanted to know: no policy held anything back, and each call that follows is judged by itself."""


SHAPING = frozenset({Verdict.APPROVE_WITH_EDITS, Verdict.RESPOND, Verdict.EXTEND})
"""Verdicts by which a person writes what happens next: from then on the run is theirs too."""


def lets(kind: str, verdict: str) -> bool:
    """Does ``verdict`` let something happen at a gate of ``kind``? What nobody knows does."""
    return (verdict in LETTING or verdict not in LETS) and (kind, verdict) not in ONLY_TELLS


REVIEWABLE_BYTES = 450_000
"""Nobody reads more than this before a decision: a larger view can be rejected, not approved. A file of 5,000 lines is
less."""


def allowed(kind: str, view_bytes: int = 0) -> tuple[Verdict, ...]:
    """Verdicts open to a person for a gate of ``kind`` whose view has ``view_bytes``; none for an unknown kind."""
    row = of(kind)
    verdicts = row.verdicts if row else ()
    if view_bytes > REVIEWABLE_BYTES:
        return tuple(verdict for verdict in verdicts if not lets(kind, verdict))
    return verdicts
