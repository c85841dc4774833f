"""Results on their way from the copies that runs worked on into the folders that were copied, or their repositories."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from loops.ids import new_id
from loops.models.runs import Run
from loops.querysets import ThroughRun


class Delivery(models.Model):
    """An order of a person to apply, commit or push a result. ``plan`` is there as soon as something may have been
    written. Into a folder, it has of each path (its name, the state that it shall have, the state that it had), in the
    order of writing; from then on only what became of all of them ends it. ``going_back``: something was in the way,
    and what was written is put back. Of a commit it has the branch, the parent, the tree, and then the commit; of one
    that is pushed also, as ``tried``, its name before anything goes out. Its ``folder`` is the address then."""

    class Kind(models.TextChoices):
        FOLDER = "folder", "Written into the folder"
        BRANCH = "branch", "Committed on a branch of its repository"
        PUSH = "push", "Pushed as a branch to its server"

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting for a worker"
        WRITING = "writing", "Being written"
        APPLIED = "applied", "Applied"
        REFUSED = "refused", "Not applied"

    OPEN = (State.WAITING, State.WRITING)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="deliveries")
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.FOLDER)
    folder = models.CharField(max_length=500)
    digest = models.CharField(max_length=64, help_text="Of what was shown to whoever ordered it.")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    plan = models.JSONField(null=True)
    going_back = models.BooleanField(default=False)
    tries = models.IntegerField(default=0, help_text="Workers that took it up.")
    files = models.IntegerField(default=0, help_text="Paths that were written.")
    why_not = models.TextField(blank=True)
    ordered_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    ordered_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    objects = ThroughRun.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["run"], condition=models.Q(state__in=["waiting", "writing"]), name="delivery_one_at_a_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} to {self.folder}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    @property
    def branch(self) -> str:
        """That a commit is on, or shall be."""
        return str(self.plan["branch"]) if self._is_begun_commit else ""

    @property
    def commit(self) -> str:
        """By its name, once it is there."""
        return str(self.plan.get("commit", "")) if self._is_begun_commit else ""

    @property
    def _is_begun_commit(self) -> bool:
        return self.kind != self.Kind.FOLDER and isinstance(self.plan, dict)
