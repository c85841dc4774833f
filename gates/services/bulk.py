"""Several gates of one kind and one risk at once: shown whole, then decided one by one with a result for each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gates.models import Decision, Gate
from gates.policy import disclosure
from gates.policy.payloads import confirmation_word
from gates.policy.take_back import asks_twice
from gates.services.decisions import decide, view_bytes
from gates.services.refusals import DecisionRefused, InvalidDecision, audit
from gates.services.take_back import seconds_left
from loops.engine.values import Verdict

MOST = 100
TOGETHER = (Verdict.APPROVE, Verdict.REJECT)
"""Verdicts that say the same of several gates; answers and edits are for one."""


@dataclass(frozen=True, slots=True)
class BulkItem:
    """A gate as the page showed it; ``shown`` is the proof that comes with its whole card."""

    gate_id: str
    digest: str
    shown: str = ""


@dataclass(frozen=True, slots=True)
class BulkResult:
    gate_id: str
    title: str
    decision: Decision | None = None
    refusal: DecisionRefused | None = None

    @property
    def ok(self) -> bool:
        return self.decision is not None

    @property
    def take_back_s(self) -> float:
        """For how long the approval can be taken back."""
        return seconds_left(self.decision.gate) if self.decision else 0


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be decided together, in the order of the queue, and what would not, each with the reason."""

    gates: list[Gate] = field(default_factory=list)
    left_out: list[tuple[Gate, str]] = field(default_factory=list)
    is_long: bool = False
    """All of it together has to have been on the screen before anything is approved."""
    asks_twice: bool = False
    """It takes a second button."""


def preview_many(*, actor: Any, items: Sequence[BulkItem], verdict: str) -> Preview:
    """What would be decided together. Raises InvalidDecision when it must not be."""
    gates = _wanted(actor, items, verdict)
    if verdict != Verdict.APPROVE:
        return Preview(gates)
    together: list[Gate] = []
    left_out: list[tuple[Gate, str]] = []
    held = 0
    for gate in gates:
        size = view_bytes(gate)
        why = disclosure.alone(gate.kind, gate.tool, size)
        if not why and held + size > disclosure.TOGETHER_BYTES:
            why = "too much to review at once: decide it in another batch"
        if why:
            left_out.append((gate, why))
        else:
            together.append(gate)
            held += size
    twice = any(asks_twice(gate.kind, gate.tool, gate.risk, verdict, gate.view) for gate in together)
    return Preview(together, left_out, held > disclosure.LONG_BYTES, twice)


def decide_many(*, actor: Any, items: Sequence[BulkItem], verdict: str, reason: str = "") -> list[BulkResult]:
    """Decide each in its own transaction; one that fails does not stop the others."""
    try:
        gates = {str(gate.pk): gate for gate in _wanted(actor, items, verdict)}
    except InvalidDecision as refusal:
        asked = ", ".join(item.gate_id for item in items)
        audit(refusal, actor=actor, gate=None, gate_id=asked, verdict=verdict)
        raise
    return [_one(actor, item, verdict, reason, gates.get(item.gate_id)) for item in items]


def _wanted(actor: Any, items: Sequence[BulkItem], verdict: str) -> list[Gate]:
    if verdict not in TOGETHER:
        raise InvalidDecision({"verdict": ["Several gates can only be approved or rejected together."]})
    if not 1 <= len(items) <= MOST:
        raise InvalidDecision.of(f"Select between 1 and {MOST} gates.")
    wanted = {item.gate_id for item in items if _is_id(item.gate_id)}
    gates = list(Gate.objects.waiting_for(actor).filter(pk__in=wanted).with_names().ranked())
    if len({(gate.kind, gate.risk) for gate in gates}) > 1:
        raise InvalidDecision.of("Select gates of one kind and one risk: they are decided together.")
    one_by_one = any(confirmation_word(gate.kind, gate.tool) or gate.kind == gate.Kind.IN_DOUBT for gate in gates)
    if verdict == Verdict.APPROVE and one_by_one:
        raise InvalidDecision.of("Actions that cannot be undone are approved one by one.")
    return gates


def _is_id(text: str) -> bool:
    """Whether it can be a gate's; what cannot is one that nobody finds."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _one(actor: Any, item: BulkItem, verdict: str, reason: str, gate: Gate | None) -> BulkResult:
    title = gate.headline if gate else ""
    try:
        if gate is not None and verdict == Verdict.APPROVE:
            _may_be_together(actor, gate)
        decision = decide(
            actor=actor,
            gate_id=item.gate_id,
            verdict=verdict,
            digest=item.digest,
            shown=item.shown,
            reason=reason,
        )
    except DecisionRefused as refusal:
        return BulkResult(item.gate_id, title, refusal=refusal)
    return BulkResult(item.gate_id, title, decision=decision)


def _may_be_together(actor: Any, gate: Gate) -> None:
    if why := disclosure.alone(gate.kind, gate.tool, view_bytes(gate)):
        refusal = InvalidDecision.of(f"Decide individually: {why}.")
        audit(refusal, actor=actor, gate=gate, gate_id=gate.pk, verdict=Verdict.APPROVE)
        raise refusal
