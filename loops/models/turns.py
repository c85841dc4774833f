"""Who asks, and who waits to ask, the endpoints of models that answer only so many calls at once (SPEC E6)."""

from __future__ import annotations

from django.db import models

from loops.ids import new_id


class ModelTurn(models.Model):
    """Written by ``loops.storage.turns`` alone. A run has one at most."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    seat = models.CharField(max_length=600, help_text="The endpoint, or the name of a model that has none.")
    model = models.CharField(max_length=100)
    run = models.UUIDField(unique=True)
    epoch = models.BigIntegerField(help_text="The ownership of the run that asks.")
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, blank=True, help_text="Empty: it waits.")

    class Meta:
        indexes = [models.Index(fields=["seat", "asked_at"], name="turn_line")]

    def __str__(self) -> str:
        return f"{self.run} at {self.seat}"
