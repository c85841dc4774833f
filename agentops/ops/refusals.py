"""What was refused at the doors lately, before anybody was known. One of the checks."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count, IntegerField, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils import timezone

from agentops.ops.finding import OK, Finding
from loops.models import AuditEvent

KINDS = ("request.refused", "token.refused", "token.in_address")
DAY = timedelta(days=1)


def lately() -> Finding:
    """Requests and addresses of one day; the audit log has which."""
    rows = AuditEvent.objects.filter(kind__in=KINDS, at__gt=timezone.now() - DAY)
    found = rows.annotate(times=Cast(KT("detail__count"), IntegerField()), whence=KT("detail__address")).aggregate(
        requests=Sum("times"), addresses=Count("whence", distinct=True)
    )
    if not found["requests"]:
        return OK, "No request was refused at the door in a day"
    said = f"Refused at the door in a day: {found['requests']} requests from {found['addresses']} addresses"
    return OK, f"{said} (Admin, Audit events)"
