"""How far a person may extend a limit: by as much as a task of the project may ask for (ADR 0045)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gates.models import Gate
from gates.policy import payloads
from gates.policy.kinds import Verdict
from gates.services.refusals import InvalidDecision
from loops.engine.limits.ceilings import extended_to
from loops.engine.state.limits import EXTENDABLE, FIELD_OF
from loops.querysets import ADMINISTER, can
from loops.services.policy_floor import floor_of, in_words


def check_extension(actor: Any, gate: Gate, verdict: str, payload: Mapping[str, Any]) -> None:
    """Raise InvalidDecision where ``payload`` grants more than the policy of the project lets ``actor`` give."""
    if verdict != Verdict.EXTEND or can(actor, gate.project_id, ADMINISTER):
        return
    ((name, granted),) = payload.items()
    bound, least = (payloads.limit_number(gate.view, key) or 0 for key in ("bound", "least"))
    field, unit = FIELD_OF[name], EXTENDABLE[name].scale
    most = extended_to(floor_of(gate.project_id), field, round(bound * unit), round(least * unit))
    if granted * unit > most:
        asked, allowed = (in_words(f"limits.{field}", round(amount)) for amount in (granted * unit, most))
        said = (
            f"{asked} is more than the policy of {gate.project.name} lets you give at once; at most {allowed}. An "
            "admin of the project can give more, or raise it under Admin, Policies."
        )
        raise InvalidDecision({name: [said]})
