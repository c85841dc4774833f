"""The durable record (SPEC J, N1). Facts, blobs and checkpoints can be added and read, never changed."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from loops.ids import new_id
from loops.models.runs import Run


class Fact(models.Model):
    """One past-tense event of a run. ``body`` holds the canonical bytes (RFC 8785) that ``hash`` covers."""

    append_only = True

    pk = models.CompositePrimaryKey("run_id", "seq")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="facts", db_constraint=False, db_index=False)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    step = models.IntegerField(default=0)
    at = models.DateTimeField()
    body = models.BinaryField()
    prev = models.BinaryField()
    hash = models.BinaryField()
    epoch = models.BigIntegerField()

    class Meta:
        ordering = ["run_id", "seq"]
        indexes = [BrinIndex(fields=["at"], name="fact_at", autosummarize=True)]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class Blob(models.Model):
    """Bytes by their SHA-256 (hex): long texts, tool output, file contents."""

    append_only = True

    sha256 = models.CharField(primary_key=True, max_length=64)
    size = models.BigIntegerField()
    body = models.BinaryField()

    def __str__(self) -> str:
        return self.sha256


class Checkpoint(models.Model):
    """The folded state after ``seq`` facts. Key: SHA-256(run id | k) (CH15 15.4.3)."""

    append_only = True

    key = models.CharField(primary_key=True, max_length=64)
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="checkpoints", db_constraint=False, db_index=False
    )
    k = models.IntegerField()
    seq = models.BigIntegerField()
    phase = models.CharField(max_length=12)
    state = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["run", "-k"], name="checkpoint_latest"),
            BrinIndex(fields=["created_at"], name="checkpoint_made", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} at {self.k}"


class MailboxItem(models.Model):
    """Something the outside wants of a run: only the lease holder turns it into a fact (architecture#journal)."""

    class Kind(models.TextChoices):
        STOP = "stop", "Stop"
        PAUSE = "pause", "Pause"
        RESUME = "resume", "Resume"
        MESSAGE = "message", "Message"
        DECISION = "decision", "Decision of a gate"
        ROLLBACK = "rollback", "Rollback"
        CHECK_CONFIDENCE = "check_confidence", "Check of the confidence"
        DETECTED = "detected", "Finding of the monitor"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="mailbox")
    kind = models.CharField(max_length=20, choices=Kind)
    payload = models.JSONField(default=dict)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    not_before = models.DateTimeField(null=True, help_text="Until then the run does not hear of it; none: at once.")
    consumed_seq = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["run", "id"], name="mailbox_open", condition=models.Q(consumed_seq=None))]

    def __str__(self) -> str:
        return f"{self.kind} for {self.run_id}"
