"""What a provider named as the window of its model, kept for all runs (SPEC U1). On a worker's own connection."""

from __future__ import annotations

from typing import Any

import psycopg

_LEARN = """
    UPDATE loops_modelconfig SET window_found = %(size)s, window_source = 'learnt', window_at = clock_timestamp()
    WHERE name = %(name)s
"""


def learn_window(connection: Any, name: str, size: int) -> None:
    """Keep ``size`` tokens as what an error named."""
    psycopg.Cursor(connection).execute(_LEARN, {"name": name, "size": size})
