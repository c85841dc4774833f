"""How far a person may loosen the limits of a run: no further than a task of the project may ask for (ADR 0045)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gates.models import Gate
from gates.policy import payloads
from gates.services.refusals import InvalidDecision
from loops.engine.limits.ceilings import extended_to, loosened
from loops.engine.state.limits import EXTENDABLE, FIELD_OF
from loops.engine.values import Verdict
from loops.querysets import ADMINISTER, can
from loops.services.policy_floor import floor_of, in_words


def check_extension(actor: Any, gate: Gate, verdict: str, payload: Mapping[str, Any]) -> None:
    """Raise InvalidDecision where the verdict grants more than the policy of the project lets ``actor`` give."""
    lets_cost_open = gate.kind == Gate.Kind.NO_PRICE and verdict == Verdict.APPROVE
    if not (lets_cost_open or verdict == Verdict.EXTEND) or can(actor, gate.project_id, ADMINISTER):
        return
    if lets_cost_open:
        _check_price(gate)
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


def _check_price(gate: Gate) -> None:
    if loosened(floor_of(gate.project_id), {"allow_unknown_cost": 1}):
        raise InvalidDecision.of(
            f"The policy of {gate.project.name} allows no model without a known price. An admin of the project can let "
            "this run continue, or change that under Admin, Policies."
        )
