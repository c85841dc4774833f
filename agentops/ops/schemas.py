"""Can the results of the runs that have not ended be judged? One of the checks."""

from __future__ import annotations

from typing import Any

from agentops.ops.finding import OK, WARNING, Finding
from loops.engine.encoding import json_schema
from loops.models import Run

LOOKED_AT = 500


def output() -> Finding:
    """Of runs that have not ended: a schema that was taken before such were refused."""
    waiting = Run.objects.live().exclude(task__output_schema=None).select_related("task").order_by("pk")
    bad = [str(run.pk) for run in waiting[:LOOKED_AT] if _unfit(run.task.output_schema)]
    if bad:
        runs = ", ".join(bad[:3]) + (", ..." if len(bad) > 3 else "")
        what = f"Runs whose output schema cannot be judged in bounded time: {len(bad)}"
        return WARNING, what, "end them and submit their tasks with a schema that is taken (RE2 patterns)", runs
    return OK, "Every output schema can be judged"


def _unfit(schema: Any) -> bool:
    try:
        json_schema.check(schema)
    except json_schema.BadSchema:
        return True
    return False
