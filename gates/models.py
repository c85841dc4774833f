"""Gates and decisions (SPEC Q). A gate is a row: no worker, thread or socket waits for a person."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from gates.policy.kinds import GATE_KINDS
from gates.querysets import DecisionQuerySet, GateQuerySet
from loops.engine.confidence import bands
from loops.ids import new_id
from loops.models import Project, Run


class Gate(models.Model):
    Kind = models.TextChoices("Kind", [(kind.name, (kind.value, row.label)) for kind, row in GATE_KINDS.items()])
    AWAITS: ClassVar[dict[str, str]] = {kind.value: row.awaits for kind, row in GATE_KINDS.items()}

    class Status(models.TextChoices):
        OPEN = "open", "Waiting"
        APPROVED = "approved", "Approved"
        REJECTED = "rejected", "Rejected"
        ANSWERED = "answered", "Answered"
        EXTENDED = "extended", "Extended"
        EXPIRED = "expired", "Expired"
        VOID = "void", "Void"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="gates")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="gates")
    kind = models.CharField(max_length=30, choices=Kind)
    status = models.CharField(max_length=20, choices=Status, default=Status.OPEN)
    step_number = models.IntegerField(default=0)
    call_id = models.CharField(max_length=120, blank=True, default="")
    tool = models.CharField(max_length=100, blank=True, default="")
    title = models.CharField(max_length=300, help_text="What will happen, in one line.")
    reasons = models.JSONField(default=list, help_text="Why this gate opened: rule, threshold, score.")
    risk = models.CharField(max_length=10, default="low")
    confidence = models.FloatField(null=True, blank=True)
    recommended = models.CharField(max_length=30, blank=True, default="")
    subject = models.BinaryField(help_text="Canonical bytes of exactly what would run or be accepted.")
    view = models.JSONField(
        default=dict,
        help_text="What the reviewer is shown: arguments, diff, question, scores.",
    )
    view_hash = models.CharField(max_length=64, default="", help_text="SHA-256 of the view, part of the digest.")
    digest = models.CharField(
        max_length=64,
        help_text="SHA-256 that a decision carries back.",
    )
    nonce = models.CharField(max_length=64, default="")
    policy_version = models.CharField(max_length=80, blank=True, default="")
    opened_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)
    overdue = models.BooleanField(default=False)
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    claimed_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    consumed_at = models.DateTimeField(null=True, blank=True)

    objects = GateQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["project", "status", "-id"], name="gate_queue"),
            models.Index(
                fields=["expires_at"],
                name="gate_expiry",
                condition=models.Q(status="open"),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "kind", "call_id"],
                condition=models.Q(status="open"),
                name="one_open_gate_per_call",
            )
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def place(self) -> str:
        """Where it would happen: project and task. Lists that show it read ``with_names``."""
        return f"{self.project.name} · {self.run.task.title}"

    @property
    def headline(self) -> str:
        """Deed, project and task: what tells one gate from the others wherever it stands alone."""
        return f"{self.title} · {self.place}"

    @property
    def is_open(self) -> bool:
        return self.status == self.Status.OPEN

    @property
    def confidence_band(self) -> str:
        """low, medium or high; empty where it was not judged. What is asked for being low, is."""
        if self.kind == self.Kind.LOW_CONFIDENCE:
            return bands.LOW
        return "" if self.confidence is None else bands.band(self.confidence)

    @property
    def confidence_calibrated(self) -> bool | None:
        """Whether ``confidence`` may be read as a probability; None where there is none."""
        return None if self.confidence is None else bands.CALIBRATED


class Decision(models.Model):
    """One person's verdict; never changed. Exactly one decision wins a gate (SPEC Q5)."""

    class Verdict(models.TextChoices):
        APPROVE = "approve", "Approve"
        APPROVE_WITH_EDITS = "approve_with_edits", "Approve with edits"
        REJECT = "reject", "Reject"
        RESPOND = "respond", "Answer"
        EXTEND = "extend", "Extend"
        ROLL_BACK = "roll_back", "Roll back"
        KEEP = "keep", "Keep"
        CONTINUE = "continue", "Continue"
        EXPIRE = "expire", "Expired"

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    gate = models.OneToOneField(Gate, on_delete=models.PROTECT, related_name="decision")
    verdict = models.CharField(max_length=30, choices=Verdict)
    reason = models.TextField(blank=True, default="")
    payload = models.JSONField(default=dict, help_text="Edited arguments, answer, extension.")
    digest = models.CharField(max_length=64)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="decisions",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [BrinIndex(fields=["created_at"], name="decision_made", autosummarize=True)]

    def __str__(self) -> str:
        return f"{self.verdict} of {self.gate_id}"
