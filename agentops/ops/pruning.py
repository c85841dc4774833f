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


def prune(*, actor: Any = None, say: Callable[[str], None] = lambda line: None) -> int:
    """Let go of everything whose time is over, pass by pass; how many bytes that freed."""
    freed = 0
    with roles.as_owner():
        while (found := retention.survey()).old:
            before = freed
            freed += retention.prune(found, actor=actor, say=say)
            if freed == before:  # whatever is left does not let itself be pruned now
                break
        retention.sweep_folders()
    return freed
