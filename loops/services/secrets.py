"""No row that a person writes keeps a known secret (SPEC S3): text is masked as it is saved, settings are refused.

A text with a sign in it still says what it says. A path, a pattern or an address with one would mean something else, so
forms of the admin refuse the whole; what comes to a row by another way is masked here all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models
from django.db.models import Expression, Value
from django.db.models.signals import pre_save

from loops.masking import known
from loops.services import audit

TEXTS = (models.CharField, models.TextField, models.JSONField)
ENCODED = frozenset({"sessions.Session", "contenttypes.ContentType", "auth.Permission"})
"""Rows in which no word of a person stands as such."""


def watch_rows() -> None:
    """Mask what Django's models save, from now on."""
    pre_save.connect(_mask, dispatch_uid="loops.secrecy")


def refused(actor: Any, what: str, given: Mapping[str, Any]) -> list[str]:
    """Names of the fields of ``given`` that hold a known secret, with an audit event where there are any."""
    held = [name for name, value in given.items() if known().is_in(value)]
    if held:
        record_refusal(actor, what, held)
    return held


def record_refusal(actor: Any, what: str, fields: Iterable[str]) -> None:
    """Whoever typed one is in the audit log, and what they typed is not."""
    detail = {"what": f"keep a secret of the installation in {what}", "fields": list(fields)}
    audit.record("access.refused", actor=actor, detail=detail)


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
