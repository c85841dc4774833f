"""What a worker's connections may hold, and for how long: a frozen owner must not keep a run's row (reliability#lease).

An owner that freezes inside a transaction would keep the lock on its run for as long as it stays frozen, and no lease
could ever pass on. So the server ends such a session well within the lease.
"""

from __future__ import annotations

import psycopg
from django.db import InterfaceError, InternalError, OperationalError, connections

LOST = (
    *(OperationalError, InterfaceError, InternalError),
    *(psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError),
)
"""Raised where a session was ended, or there is no server. That of one that idled in a transaction is an InternalError
(SQLSTATE 25P03)."""
IDLE_IN_TRANSACTION_MS, LOCK_MS, STATEMENT_MS = 5_000, 5_000, 12_000
"""Each less than the lease (``journal.TTL_S``)."""
_SERVER = {
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS,
    "lock_timeout": LOCK_MS,
    "statement_timeout": STATEMENT_MS,
    "tcp_keepalives_idle": 5,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
}
_CLIENT = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 12_000}
"""For both ends: a machine that is gone is noticed within the lease as well. Without meaning on a local socket."""


def guard_connections() -> None:
    """For workers, before they connect. Pgbouncer needs ``ignore_startup_parameters = options`` and these as the
    role's settings instead (``ALTER ROLE ... SET``)."""
    options = connections.settings["default"].setdefault("OPTIONS", {})
    words = [str(options.get("options", "")), *(f"-c {name}={value}" for name, value in _SERVER.items())]
    options.update(_CLIENT, options=" ".join(filter(None, words)))
