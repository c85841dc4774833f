"""What the API takes and gives."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gates.models import Decision, Gate
from gates.services.disclosure import proof
from loops.api.inputs import Strict


class DecisionInput(Strict):
    """A decision. What belongs into ``payload`` depends on the verdict.

    approve: {"confirm"?}; approve_with_edits: {"arguments", "confirm"?}; reject: {}; respond: {"answer"} or
    {"outcome"}; roll_back, keep, continue: {};
    extend: {limit: new bound} for the limit that ``view.limit`` names, at least ``view.least``, while
    ``view.extensions_used`` is below ``view.extensions_allowed``; a loop that is let go on counts as an extension, too.

    ``shown`` comes with the whole gate, never with a list, and is good for whoever fetched it, until the gate changes.
    Every verdict that lets something happen needs it; reject and keep do not, nor does the answer to a question.
    """

    verdict = serializers.ChoiceField([verdict for verdict in Decision.Verdict.values if verdict != "expire"])
    digest = serializers.CharField(max_length=64)
    shown = serializers.CharField(required=False, allow_blank=True, default="", max_length=64)
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=10_000)
    payload = serializers.DictField(required=False, default=dict)


class DecisionOutput(serializers.ModelSerializer):
    """A decision as it was taken."""

    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = Decision
        fields = ("id", "gate", "verdict", "reason", "payload", "digest", "decided_by", "created_at")
        read_only_fields = fields


class GateSummary(serializers.ModelSerializer):
    """A gate in a list."""

    task = serializers.CharField(source="run.task.title", read_only=True, help_text="Title of the task of its run.")
    claimed_by = serializers.CharField(source="claimed_by.username", default=None, allow_null=True, read_only=True)
    confidence = serializers.FloatField(
        read_only=True, allow_null=True, help_text="An uncalibrated score from 0 to 1; no probability."
    )
    confidence_band = serializers.CharField(read_only=True, help_text="low, medium or high; empty without a score.")
    confidence_calibrated = serializers.BooleanField(read_only=True, allow_null=True)

    class Meta:
        model = Gate
        fields: tuple[str, ...] = (
            "id", "run", "task", "project", "kind", "status", "step_number", "call_id", "tool", "title", "reasons",
            "risk", "confidence", "confidence_band", "confidence_calibrated", "recommended", "policy_version", "digest",
            "opened_at", "expires_at", "due_at", "overdue", "claimed_by", "decided_at", "consumed_at",
        )  # fmt: skip
        read_only_fields = fields


class GateOutput(GateSummary):
    """A gate with what is shown, what is bound, and what was decided."""

    subject = serializers.SerializerMethodField(help_text="Canonical JSON that the digest covers.")
    decision = serializers.SerializerMethodField()
    shown = serializers.SerializerMethodField(help_text="To send back with a verdict that lets something happen.")

    class Meta(GateSummary.Meta):
        fields = (*GateSummary.Meta.fields, "view", "view_hash", "nonce", "subject", "decision", "shown")
        read_only_fields = fields

    def get_subject(self, gate: Gate) -> str:
        """The exact bytes, as text."""
        return bytes(gate.subject).decode()

    def get_shown(self, gate: Gate) -> str:
        """Evidence that whoever asks was given the whole; empty once nothing can be decided."""
        return proof(self.context["request"].user, gate) if gate.is_open else ""

    def get_decision(self, gate: Gate) -> dict[str, Any] | None:
        """None while nobody has decided."""
        decision = getattr(gate, "decision", None)
        return DecisionOutput(decision).data if decision else None
