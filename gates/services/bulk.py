"""Several gates of one kind and one risk at once: previewed, then decided one by one with a result for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gates.models import Decision, Gate
from gates.policy.payloads import confirmation_word
from gates.policy.verdicts import Verdict
from gates.services.deciding import decide
from gates.services.refusals import DecisionRefused, InvalidDecision

MOST = 100
TOGETHER = (Verdict.APPROVE, Verdict.REJECT)
"""Verdicts that say the same of several gates; answers and edits are for one."""


@dataclass(frozen=True, slots=True)
class BulkItem:
    """A gate as the page showed it."""

    gate_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class BulkResult:
    gate_id: str
    title: str
    decision: Decision | None = None
    refusal: DecisionRefused | None = None

    @property
    def ok(self) -> bool:
        return self.decision is not None


def preview_many(*, actor: Any, items: Sequence[BulkItem], verdict: str) -> list[Gate]:
    """What would be decided, in the order of the queue. Raises InvalidDecision when it must not be done together."""
    if verdict not in TOGETHER:
        raise InvalidDecision({"verdict": ["Several gates can only be approved or rejected together."]})
    if not 1 <= len(items) <= MOST:
        raise InvalidDecision.of(f"Select between 1 and {MOST} gates.")
    wanted = {item.gate_id for item in items}
    gates = list(Gate.objects.waiting_for(actor).filter(pk__in=wanted).with_names().ranked())
    if len({(gate.kind, gate.risk) for gate in gates}) > 1:
        raise InvalidDecision.of("Select gates of one kind and one risk: they are decided together.")
    one_by_one = any(confirmation_word(gate.kind, gate.tool) or gate.kind == gate.Kind.IN_DOUBT for gate in gates)
    if verdict == Verdict.APPROVE and one_by_one:
        raise InvalidDecision.of("Actions that cannot be undone are approved one by one.")
    return gates


def decide_many(*, actor: Any, items: Sequence[BulkItem], verdict: str, reason: str = "") -> list[BulkResult]:
    """Decide each in its own transaction; one that fails does not stop the others."""
    titles = {str(gate.pk): gate.title for gate in preview_many(actor=actor, items=items, verdict=verdict)}
    return [_one(actor, item, verdict, reason, titles.get(item.gate_id, "")) for item in items]


def _one(actor: Any, item: BulkItem, verdict: str, reason: str, title: str) -> BulkResult:
    try:
        decision = decide(
            actor=actor,
            gate_id=item.gate_id,
            verdict=verdict,
            digest=item.digest,
            reason=reason,
        )
    except DecisionRefused as refusal:
        return BulkResult(item.gate_id, title, refusal=refusal)
    return BulkResult(item.gate_id, title, decision=decision)
