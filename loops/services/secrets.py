"""No row that a person writes keeps a known secret (SPEC S3): text is masked as it is saved, settings are refused.

A text with a sign in it still says what it says. A path, a pattern or an address with one would mean something else, so
forms of the admin refuse the whole; what comes to a row by another way is masked here all the same.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Expression, Value
from django.db.models.signals import pre_save

from loops.masking import known

TEXTS = (models.CharField, models.TextField, models.JSONField)
ENCODED = frozenset({"sessions.Session", "contenttypes.ContentType", "auth.Permission"})
"""Rows in which no word of a person stands as such."""


def watch_rows() -> None:
    """Mask what Django's models save, from now on."""
    pre_save.connect(_mask, dispatch_uid="loops.secrecy")


def _mask(sender: type[models.Model], instance: models.Model, raw: bool = False, **_: Any) -> None:
    if raw or sender._meta.label in ENCODED:
        return
    for field in sender._meta.concrete_fields:
        value = instance.__dict__.get(field.attname)  # what was not read is not written either, and costs no query
        if not value or not isinstance(field, TEXTS):
            continue
        if isinstance(value, Expression):  # ``Concat("text", Value("more"))``
            for part in value.flatten():
                if isinstance(part, Value) and isinstance(part.value, str):
                    part.value = known().text(part.value)
        elif (masked := known().value(value)) is not value:
            setattr(instance, field.attname, masked)
