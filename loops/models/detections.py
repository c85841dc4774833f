"""What the monitor saw of a run from outside (SPEC F2)."""

from __future__ import annotations

from django.db import models

from loops.ids import new_id
from loops.models.runs import Run


class Detection(models.Model):
    """One finding, made once for each method and set of steps. It is told to the run by mail as well, but a run whose
    worker hangs reads none: people see this row."""

    class Kind(models.TextChoices):
        LOOP = "loop", "Looping"
        STALL = "stall", "Stalled"
        SPEND = "spend", "Spends too fast"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="detections")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=10, choices=Kind)
    method = models.CharField(max_length=40)
    evidence = models.TextField()
    steps = models.JSONField(default=list)
    confidence = models.FloatField(default=0.0)
    seq = models.BigIntegerField(help_text="Head of the journal then: once the run is past it, it goes on.")

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run", "method", "steps"], name="detected_once")]

    def __str__(self) -> str:
        return f"{self.method} in {self.run_id}"
