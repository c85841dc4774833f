"""Whether history is anchored outside the database: for `doctor` and the System page."""

from datetime import timedelta

from django.utils import timezone

from agentops.evidence import anchors, rounds
from agentops.ops.finding import ERROR, OK, WARNING, Finding
from loops.models import AuditEvent

OLD = timedelta(minutes=10)
"""Twenty rounds of the clock."""


def anchored() -> Finding:
    """By the last line of the file, and whether history goes on from it."""
    try:
        last = anchors.newest()
    except anchors.AnchorError as error:
        return ERROR, f"The anchor cannot be believed: {error}", rounds.ANEW_HOW
    if last is None:
        return _none()
    if broken := rounds.breaks(last):
        said = f"History does not continue from the anchor of {last.at:%Y-%m-%d %H:%M:%S} UTC: {'; '.join(broken)}"
        return ERROR, said, rounds.ANEW_HOW
    age = timezone.now() - last.at
    if age > OLD:
        why = rounds.trouble(after=last.at) or "the scheduler completed no round"
        todo = "free disk space or restore the folder, and check that scheduler and workers run"
        return WARNING, f"The last anchor is {age.total_seconds() / 60:.0f} minutes old: {why}", todo
    return OK, f"History was anchored {max(0, age.total_seconds()):.0f} s ago"


def _none() -> Finding:
    if rounds.was_begun():
        return ERROR, f"The anchor {anchors.file()} is missing", rounds.ANEW_HOW
    if why := rounds.trouble():
        return ERROR, f"History was never anchored: {why}", f"look at {anchors.file().parent}"
    if AuditEvent.objects.filter(at__lt=timezone.now() - OLD).exists():
        return WARNING, "History was never anchored", "start the scheduler and a worker, or run `manage.py anchor`"
    return OK, "Nothing to anchor yet: the scheduler does so twice a minute"
