"""Does somebody watch the runs, and with what? Two of the checks."""

from __future__ import annotations

from django.conf import settings

from agentops.ops.finding import ERROR, OK, WARNING, Finding
from loops.monitor import alerts, watch

OLDEST_LOOK_S = 30


def monitor() -> Finding:
    """Its last look."""
    silent = watch.silent_s()
    if silent is None:
        return ERROR, "nobody watches the runs", "start `manage.py monitor`"
    if silent > OLDEST_LOOK_S:
        return ERROR, f"silent for {silent:.0f} s", "restart `manage.py monitor`"
    return OK, f"last check {silent:.0f} s ago"


def embeddings() -> Finding:
    """By what loops are found: word pairs always, and meanings where a model for it can be asked."""
    if not settings.MONITOR_EMBEDDINGS:
        return OK, "Loop detection: text similarity, without embeddings"
    if (told := alerts.embeddings()) is None:
        return OK, f"The embedding model {settings.MONITOR_EMBEDDINGS} was not needed yet"
    works, said = told
    if not works:
        todo = f"see the model {settings.MONITOR_EMBEDDINGS} in Admin and the server behind it"
        return WARNING, f"No embeddings{alerts.INSTEAD}; {said}", todo
    return OK, f"Loop detection: text similarity, and {said}"
