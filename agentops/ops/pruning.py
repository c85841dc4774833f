"""Prune as the owner of the database: the application's role cannot delete what is append-only."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connection

from agentops import roles
from loops.services import retention


def may_prune() -> bool:
    """Tell whether this process has a login that may delete stored bodies."""
    if settings.DATABASE_OWNER is not None:
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_table_privilege(current_user, 'loops_blob', 'DELETE')")
        return bool(cursor.fetchone()[0])


def prune(*, actor: Any = None, say: Callable[[str], None] = lambda line: None) -> retention.Pruned:
    """Let go of what was marked before and is old still, pass by pass, and mark what has become old since."""
    done = retention.Pruned()
    with roles.as_owner():
        while True:
            last = retention.prune(retention.survey(), actor=actor, say=say)
            done.runs, done.bytes, done.marked = done.runs + last.runs, done.bytes + last.bytes, last.marked
            if not last.runs:
                return done
