"""What the commands of acceptance criteria say before anything was done."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

from loops.ids import new_id
from loops.models.people import Project
from loops.models.tasks import Workspace


class Preflight(models.Model):
    """Commands that a person has run once on a copy of a workspace. ``results`` has one for each, in order: its
    ``command``, ``status`` (passed, failed, error: it could not do its work, refused), ``said`` in one line and the
    ``output``; whoever loses it can ask again."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting for a worker"
        RUNNING = "running", "Running"
        DONE = "done", "Done"

    OPEN = (State.WAITING, State.RUNNING)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, null=True, related_name="+")
    agent_type = models.CharField(max_length=40)
    commands = models.JSONField(default=list)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    results = models.JSONField(default=list)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)
    until = models.DateTimeField(help_text="Its worker was lost if it is not done by then.")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["asked_by", "state"], name="preflight_open")]

    def __str__(self) -> str:
        return f"{len(self.commands)} commands in {self.workspace or 'an empty folder'}"

    @property
    def is_open(self) -> bool:
        """Is there still something to wait for?"""
        return self.state in self.OPEN and timezone.now() < self.until

    @property
    def is_lost(self) -> bool:
        return self.state in self.OPEN and not self.is_open

    @staticmethod
    def patience(commands: int, each_s: float) -> timedelta:
        """With time for a worker to come and to copy the folder."""
        return timedelta(seconds=300 + commands * each_s)
