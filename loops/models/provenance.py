"""What is left when a run ends, and who did what (SPEC N1, N2). The database itself refuses to change these rows."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from loops.ids import new_id
from loops.models.audit_kinds import kinds
from loops.models.people import Project
from loops.models.runs import Run


class ProvenanceRecord(models.Model):
    """Lineage of a committed result: canonical bytes, their hash, and the hash of the record before (one chain)."""

    append_only = True

    number = models.BigAutoField(primary_key=True)
    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="provenance")
    body = models.BinaryField()
    prev = models.BinaryField()
    hash = models.BinaryField(unique=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["number"]
        indexes = [BrinIndex(fields=["created_at"], name="provenance_made", autosummarize=True)]

    def __str__(self) -> str:
        return f"Provenance of {self.run_id}"


class AuditEvent(models.Model):
    """Anything a person or a guard did that is not a fact of one run: refusals, log-ins, policy edits, bad input."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=60, choices=kinds)
    project = models.ForeignKey(Project, null=True, on_delete=models.PROTECT, related_name="+")
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="+")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [BrinIndex(fields=["at"], name="audit_at", autosummarize=True)]

    def __str__(self) -> str:
        return self.kind
