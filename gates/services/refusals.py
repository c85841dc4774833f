"""Why a decision was not taken, in words for people and codes for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gates.models import Decision, Gate
from gates.policy.payloads import FORM, Errors
from gates.policy.verdicts import SAID
from loops.engine.values import Verdict
from loops.services import audit as audit_log


class DecisionRefused(Exception):
    """Nothing was decided. ``code`` is stable, the message is for people."""

    code = "refused"
    is_audited = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class GateNotFound(DecisionRefused):
    """There is no such gate, or this person may not see it: the same answer."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("There is no such gate.")


class NotAllowed(DecisionRefused):
    code = "not_allowed"


class AlreadyDecided(DecisionRefused):
    """Somebody was first, or the run needs no decision any more."""

    code = "already_decided"

    def __init__(
        self,
        message: str,
        *,
        by: str = "",
        at: datetime | None = None,
        verdict: str = "",
    ) -> None:
        super().__init__(message)
        self.by, self.at, self.verdict = by, at, verdict


class TooLate(DecisionRefused):
    """What was approved has begun, or there is nothing to take back."""

    code = "too_late"


class GateChanged(DecisionRefused):
    """What the page showed is not what the gate holds now."""

    code = "changed"


class NotShown(DecisionRefused):
    """The whole was not shown to whoever decides."""

    code = "not_shown"

    def __init__(self) -> None:
        super().__init__(
            "Not decided: you have not been shown all of it. Open its own page, scroll to the end, and decide there."
        )


class GateExpired(DecisionRefused):
    code = "expired"


class InvalidDecision(DecisionRefused):
    """The verdict or what came with it does not fit; ``errors`` by field."""

    code = "invalid"

    def __init__(self, errors: Errors) -> None:
        super().__init__(" ".join(message for messages in errors.values() for message in messages))
        self.errors = errors

    @classmethod
    def of(cls, message: str) -> InvalidDecision:
        return cls({FORM: [message]})


def already_decided(gate: Gate) -> AlreadyDecided:
    """ "Already approved by Ana at 14:02." """
    decision = Decision.objects.select_related("decided_by").filter(gate=gate).first()
    if decision is None:
        return AlreadyDecided(
            "The run no longer needs this decision.",
            at=gate.decided_at,
            verdict=gate.status,
        )
    said, at = SAID[Verdict(decision.verdict)], decision.created_at
    if decision.decided_by is None:
        return AlreadyDecided(f"Already {said} at {at:%H:%M} UTC.", at=at, verdict=decision.verdict)
    by = decision.decided_by.get_full_name() or decision.decided_by.get_username()
    back = " and taken back: it is asked again" if gate.status == Gate.Status.VOID else ""
    return AlreadyDecided(
        f"Already {said} by {by} at {at:%H:%M} UTC{back}.",
        by=by,
        at=at,
        verdict=decision.verdict,
    )


def audit(
    refusal: DecisionRefused,
    *,
    actor: Any,
    gate: Gate | None,
    gate_id: Any,
    verdict: str,
) -> None:
    """One row for every refusal, however many doors it passes; after the refused transaction has been rolled back."""
    if refusal.is_audited:
        return
    refusal.is_audited = True
    audit_log.record(
        "gate.refused",
        actor=actor if actor is not None and actor.pk else None,
        project=gate.project if gate else None,
        run=gate.run if gate else None,
        detail={"gate": str(gate_id), "verdict": str(verdict), "code": refusal.code, "why": refusal.message},
    )
