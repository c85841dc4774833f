"""Circuit breakers, one row each, shared by all workers (SPEC E5); what they did, and the rules admins set."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from loops.ids import new_id


class BreakerKind(models.TextChoices):
    TOOL = "tool", "Tool"
    MODEL = "model", "Model"


class BreakerRule(models.Model):
    """When a breaker opens, and for how long. ``*`` holds for whatever has no rule of its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=10, choices=BreakerKind)
    name = models.CharField(max_length=120, default="*", help_text="Of the tool or the model; * is every other one.")
    enabled = models.BooleanField(default=True, help_text="Off: failures are not counted, and it never opens.")
    threshold = models.PositiveIntegerField(
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text="Failures in a row that open it.",
    )
    window_s = models.PositiveIntegerField(
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(86_400)],
        verbose_name="window in seconds",
        help_text="Older failures do not count.",
    )
    cooldown_s = models.PositiveIntegerField(
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(900)],
        verbose_name="cooldown in seconds",
        help_text="Until one call may try again. Doubled by each try that fails, up to 15 minutes.",
    )

    class Meta:
        ordering = ["kind", "name"]
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="breaker_rule_once")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"


class Breaker(models.Model):
    """The state of one breaker. Written by ``loops.storage.breakers`` only: compare ``version``, then set."""

    class Status(models.TextChoices):
        CLOSED = "closed", "Closed"
        OPEN = "open", "Open"
        HALF_OPEN = "half_open", "Half-open"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=10, choices=BreakerKind)
    name = models.CharField(max_length=120)
    status = models.CharField(max_length=10, choices=Status, default=Status.CLOSED)
    failed_at = models.JSONField(default=list)
    why = models.CharField(max_length=200, blank=True)
    opened_at = models.DateTimeField(null=True)
    open_until = models.DateTimeField(null=True)
    probes_failed = models.PositiveIntegerField(default=0)
    probe_run = models.UUIDField(null=True)
    probe_epoch = models.BigIntegerField(null=True)
    version = models.BigIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["kind", "name"]
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="breaker_once")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"


class BreakerEvent(models.Model):
    """A breaker changed its state. ``run`` is whose call did it, without a reference: runs come and go."""

    append_only = True

    class What(models.TextChoices):
        OPENED = "opened", "Opened"
        PROBED = "probed", "Tried again"
        REOPENED = "reopened", "Opened again"
        CLOSED = "closed", "Closed"
        RESET = "reset", "Reset by a person"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField()
    kind = models.CharField(max_length=10, choices=BreakerKind)
    name = models.CharField(max_length=120)
    what = models.CharField(max_length=10, choices=What)
    why = models.CharField(max_length=200, blank=True)
    open_until = models.DateTimeField(null=True)
    run = models.UUIDField(null=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["-id"]
        indexes = [BrinIndex(fields=["at"], name="breaker_event_at", autosummarize=True)]

    def __str__(self) -> str:
        return f"{self.name}: {self.get_what_display()}"
