"""What was made for the copies of runs: by the set-up command of a workspace, or fetched from its repository."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from loops.ids import new_id
from loops.models.tasks import Workspace
from loops.querysets import ProjectScoped


class ThroughWorkspace(ProjectScoped):
    project_path = "workspace__project"


class Setup(models.Model):
    """One time that the set-up command of a workspace ran, or that its repository was fetched. ``key`` is the hash of
    the command, of its variables and of the files in which dependencies are named, or the commit that was fetched;
    ``secrets`` names variables of the worker that it got; ``built_at`` is where the command saw its folder.
    ``requests`` has for each host that was asked for: its ``host``, ``count``, ``sent`` and ``received`` in bytes, and
    ``why_not``, where it was not let through."""

    class Kind(models.TextChoices):
        SETUP = "setup", "Set-up"
        FETCH = "fetch", "Fetch"

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting for a worker"
        RUNNING = "running", "Running"
        READY = "ready", "Ready"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"
        LOST = "lost", "Lost"

    OPEN = (State.WAITING, State.RUNNING)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="setups")
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.SETUP)
    key = models.CharField(max_length=64)
    command = models.TextField()
    variables = models.JSONField(default=dict)
    hosts = models.JSONField(default=list)
    secrets = models.JSONField(default=list)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    log = models.TextField(blank=True)
    why_not = models.TextField(blank=True)
    requests = models.JSONField(default=list)
    built_at = models.CharField(max_length=500, blank=True)
    machine = models.CharField(max_length=100, blank=True)
    files = models.IntegerField(default=0)
    size = models.BigIntegerField(default=0, help_text="In bytes.")
    ordered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", help_text="Empty: a run."
    )
    ordered_at = models.DateTimeField(auto_now_add=True)
    until = models.DateTimeField(help_text="Its worker was lost if it says nothing until then.")
    ended_at = models.DateTimeField(null=True)

    objects = ThroughWorkspace.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["workspace", "key"], name="setup_by_key")]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], condition=models.Q(state__in=["waiting", "running"]), name="setup_one_at_a_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.workspace}: {self.get_state_display()}"

    @property
    def commit(self) -> str:
        """That was fetched; empty for a set-up."""
        return self.key if self.kind == self.Kind.FETCH else ""

    @property
    def is_open(self) -> bool:
        """Is there still something to wait for?"""
        return self.state in self.OPEN and timezone.now() < self.until

    @property
    def is_lost(self) -> bool:
        return self.state in self.OPEN and not self.is_open
