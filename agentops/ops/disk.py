"""Is there room for what AgentOps writes?"""

import shutil

from django.conf import settings

from agentops.ops.finding import ERROR, OK, WARNING, Finding

GB = 1_000_000_000


def room() -> Finding:
    """Where the state folder lies."""
    state = settings.PATHS.state
    usage = shutil.disk_usage(state if state.exists() else "/")
    free = f"{usage.free / GB:,.1f} GB of {usage.total / GB:,.0f} GB are free"
    if usage.free < GB:
        return ERROR, free, "make room: without it the database stops, and every run with it"
    if usage.free < 5 * GB or usage.free < 0.05 * usage.total:
        return WARNING, free, "make room, e.g. with `manage.py prune`"
    return OK, free
