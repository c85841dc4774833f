"""Seals of rows that only grow (ADR 0046): written by the clock, anchored outside the database."""

from __future__ import annotations

from django.db import models


class Seal(models.Model):
    """The digest of one row, chained to the seal before it. One chain for each table, numbered from 1 without gaps."""

    append_only = True

    pk = models.CompositePrimaryKey("table", "number")
    table = models.CharField(max_length=63)
    number = models.BigIntegerField()
    key = models.CharField(max_length=120, help_text="Primary key of the row; `run:seq` for the head of a journal.")
    digest = models.BinaryField(help_text="SHA-256 of the row; of a journal, the hash of its last fact.")
    at = models.DateTimeField(help_text="When it was sealed.")
    hash = models.BinaryField(help_text="SHA-256 of the hash before and of this seal.")

    class Meta:
        ordering = ["table", "number"]
        constraints = [models.UniqueConstraint(fields=["table", "key"], name="seal_once")]

    def __str__(self) -> str:
        return f"{self.table} {self.number}"
