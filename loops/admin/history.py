"""What happened: to be read, by nobody to be changed (SPEC N1, N2)."""

from __future__ import annotations

from django.contrib import admin

from loops import models as m
from loops.admin.base import ReadOnly
from loops.engine.encoding import canonical


@admin.register(m.PolicyVersion)
class PolicyVersionAdmin(ReadOnly):
    list_display = ("__str__", "project", "reason", "created_by", "created_at", "sha256")
    list_filter = ("project",)


@admin.register(m.AuditEvent)
class AuditEventAdmin(ReadOnly):
    list_display = ("at", "kind", "code", "actor", "project", "run")
    list_filter = ("kind", "project")
    date_hierarchy = "at"

    @admin.display(description="code", ordering="kind")
    def code(self, event: m.AuditEvent) -> str:
        """What SQL and the documentation call its kind."""
        return event.kind


@admin.register(m.ProvenanceRecord)
class ProvenanceAdmin(ReadOnly):
    project_path = "run__project"
    list_display = ("number", "run", "created_at", "hash_hex")
    fields = ("number", "run", "created_at", "hash_hex", "prev_hex", "record")
    readonly_fields = fields

    @admin.display(description="hash")
    def hash_hex(self, record: m.ProvenanceRecord) -> str:
        """As ``verify_chain`` prints it."""
        return bytes(record.hash).hex()

    @admin.display(description="hash of the record before")
    def prev_hex(self, record: m.ProvenanceRecord) -> str:
        """Empty for the first."""
        return bytes(record.prev).hex()

    @admin.display(description="record")
    def record(self, record: m.ProvenanceRecord) -> str:
        """The bytes that the hash covers."""
        return canonical.clean(bytes(record.body).decode("utf-8", "replace"))


@admin.register(m.Run)
class RunAdmin(ReadOnly):
    list_display = ("id", "task", "project", "status", "end_reason", "total_steps", "total_cost_usd", "started_at")
    list_filter = ("status", "project")
    exclude = ("state_snapshot",)


@admin.register(m.Task)
class TaskAdmin(ReadOnly):
    list_display = ("title", "project", "agent", "complexity", "created_by", "created_at")
    list_filter = ("project",)
    search_fields = ("title",)
