"""What words of a command line stand for: people, runs and named rows, each found as its owner may see it."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from loops.models import Run


def user(username: str) -> Any:
    """The person of this name, else the first superuser."""
    users = get_user_model()._default_manager.filter(is_active=True)
    found = users.filter(username=username) if username else users.filter(is_superuser=True).order_by("pk")
    if (person := found.first()) is None:
        raise CommandError(f"There is no user {username}." if username else "There is no superuser; use --as.")
    return person


def run(actor: Any, run_id: uuid.UUID) -> Run:
    """A run that ``actor`` may see."""
    found: Run | None = Run.objects.visible_to(actor).with_names().filter(pk=run_id).first()
    if found is None:
        raise CommandError(f"There is no run {run_id}.")
    return found


def one(rows: Any, what: str, reference: str, name: str) -> Any:
    """The one of ``rows`` with this id or name, or a refusal that names those there are."""
    found = next((row for row in rows if reference in (str(row.pk), str(getattr(row, name)))), None)
    if found is None:
        known = ", ".join(sorted(str(getattr(row, name)) for row in rows)) or "none"
        raise CommandError(f"There is no {what} {reference}. There are: {known}")
    return found
