"""What is left of a run whose heavy parts were pruned (SPEC N1): its facts and provenance, and this."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from loops.models.runs import Run


class Tombstone(models.Model):
    """Says that bodies were taken away on purpose, when, and of which journal: verification reports them as pruned."""

    append_only = True

    run = models.OneToOneField(Run, on_delete=models.PROTECT, primary_key=True, related_name="tombstone")
    at = models.DateTimeField(auto_now_add=True)
    head_seq = models.BigIntegerField(help_text="Number of facts at that time.")
    head_hash = models.BinaryField(help_text="Hash of the last of them.")
    blobs = models.IntegerField(help_text="Bodies deleted with it.")
    blob_bytes = models.BigIntegerField()
    folder_bytes = models.BigIntegerField(default=0)
    reason = models.CharField(max_length=300)

    class Meta:
        ordering = ["-at"]
        indexes = [BrinIndex(fields=["at"], name="tombstone_at", autosummarize=True)]

    def __str__(self) -> str:
        return f"{self.run_id} pruned"


class CondemnedBlob(models.Model):
    """A body that is to go. Whoever asks what is stored is not told of it any more, and stores it again if need be."""

    sha256 = models.CharField(primary_key=True, max_length=64)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.sha256
