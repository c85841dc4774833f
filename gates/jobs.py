"""What the clock does with gates."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from gates import services


@shared_task(name="gates.expire")
def expire(**_: Any) -> None:
    """Close or escalate what nobody decided in time. Safe to run twice, or by two workers at once."""
    services.expire_due()
