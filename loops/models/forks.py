"""Forks: which run began with the history of which, up to where, and by whom (SPEC K3)."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from loops.models.runs import Run


class Fork(models.Model):
    """What a person asked for. The run's first fact and its ``Forked`` record the same; this row is for reading."""

    append_only = True

    run = models.OneToOneField(Run, on_delete=models.PROTECT, primary_key=True, related_name="fork")
    parent = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="forks")
    seq = models.BigIntegerField(help_text="Last fact of the other run that was taken over.")
    step = models.IntegerField(help_text="Its step.")
    head = models.BinaryField(help_text="Its hash.")
    message = models.TextField(blank=True)
    model = models.CharField(max_length=120, blank=True, help_text="Empty: as before.")
    instructions = models.TextField(null=True, blank=True, help_text="None: as before.")  # noqa: DJ001 - none is not ""
    limits = models.JSONField(default=dict, help_text="Overrides of the limits in force at that point.")
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - absent is no key
    content_sha256 = models.CharField(max_length=64, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="forks")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-run_id"]
        indexes = [BrinIndex(fields=["created_at"], name="fork_made", autosummarize=True)]
        constraints = [
            models.UniqueConstraint(
                fields=["parent", "created_by", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="fork_idempotency_key_once",
            )
        ]

    def __str__(self) -> str:
        return f"Fork of {self.parent_id} at step {self.step}"
