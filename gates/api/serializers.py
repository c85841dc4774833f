"""What the API takes and gives."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gates.models import Decision, Gate
from gates.services import disclosure
from loops.api.inputs import Strict

LONGEST_PROOF = 65 * 501
"""64 characters and a dot for the gate and each of the files that a final review names at most."""


class DecisionInput(Strict):
    """A decision. What belongs into ``payload`` depends on the verdict.

    approve: {"confirm"?}; approve_with_edits: {"arguments", "confirm"?}; reject: {}; respond: {"answer"} or
    {"outcome"}; roll_back, keep, continue: {};
    extend: {limit: new bound} for the limit that ``view.limit`` names, at least ``view.least``, while
    ``view.extensions_used`` is below ``view.extensions_allowed``; a loop that is let go on counts as an extension, too.

    ``shown`` comes with the whole gate, never with a list, and is good for whoever fetched it, until the gate changes.
    Every verdict that lets something happen needs it; reject and keep do not, nor does the answer to a question. For
    a final review it is the ``shown`` of the gate and that of each of its ``files`` that has one, in their order, with
    "." between them; where a file's is null, ``GET /gates/{id}/file/?path=`` gives it with the whole diff.
    """

    verdict = serializers.ChoiceField([verdict for verdict in Decision.Verdict.values if verdict != "expire"])
    digest = serializers.CharField(max_length=64)
    shown = serializers.CharField(required=False, allow_blank=True, default="", max_length=LONGEST_PROOF)
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
        read_only=True, allow_null=True, help_text="An uncalibrated score from 0 to 1, not a probability."
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


class ChangedFileOutput(serializers.Serializer):
    """A file that a result is about."""

    path = serializers.CharField(source="file.path")
    what = serializers.CharField(source="file.what", help_text="created, changed, deleted, moved or permissions")
    moved_from = serializers.CharField(source="file.source", help_text="Of a moved file: its former path.")
    permissions = serializers.CharField(
        source="file.permissions", help_text="Changed permissions in words, or those that let a new file be run."
    )
    diff = serializers.CharField(source="file.diff")
    note = serializers.CharField(source="file.note", help_text="Why there is no diff.")
    is_hidden = serializers.BooleanField(
        source="file.is_hidden", help_text="It cannot be shown, so the result cannot be approved."
    )
    shown = serializers.SerializerMethodField(
        help_text="Its part of the gate's `shown`; empty where it needs none, null where the diff is too long for this "
        "answer: GET the gate's file/?path= has it."
    )

    def get_shown(self, one: disclosure.GivenOut) -> str | None:
        """Evidence that its diff was given out."""
        return None if one.file.is_apart else one.proof


class GateOutput(GateSummary):
    """A gate with what is shown, what is bound, and what was decided."""

    subject = serializers.SerializerMethodField(help_text="The exact JSON that an approval is bound to.")
    decision = serializers.SerializerMethodField()
    shown = serializers.SerializerMethodField(help_text="Send it back with every verdict but reject and keep.")
    files = serializers.SerializerMethodField(help_text="The changed files that a final review is about.")

    class Meta(GateSummary.Meta):
        fields = (*GateSummary.Meta.fields, "view", "view_hash", "nonce", "subject", "decision", "shown", "files")
        read_only_fields = fields

    def get_subject(self, gate: Gate) -> str:
        """The exact bytes, as text."""
        return bytes(gate.subject).decode()

    def get_shown(self, gate: Gate) -> str:
        """Evidence that whoever asks was given the whole; empty once nothing can be decided."""
        return disclosure.proof(self.context["request"].user, gate) if gate.is_open else ""

    @extend_schema_field(ChangedFileOutput(many=True))
    def get_files(self, gate: Gate) -> list[dict[str, Any]]:
        """By path, each with its diff as far as there is room."""
        given = disclosure.given_out(self.context["request"].user, gate)
        return list(ChangedFileOutput(given, many=True).data)

    def get_decision(self, gate: Gate) -> dict[str, Any] | None:
        """None while nobody has decided."""
        decision = getattr(gate, "decision", None)
        return DecisionOutput(decision).data if decision else None
