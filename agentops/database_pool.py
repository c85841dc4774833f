"""The database connections of a web process, whichever server runs it.

It answers each request on a thread of its own, and those threads come and go: connections that belonged to threads
would be left behind, until the database has none left for anybody. So they belong to a pool, and a request that finds
it empty waits its turn. Workers, the monitor and commands keep a connection for each of their few threads: sessions of
theirs hold locks and prepared statements.
"""

from django.conf import settings
from django.db import connections

PATIENCE_S = 30
"""Above what a burst of readers takes on a busy machine, below the minute after which proxies give up."""


def share_connections() -> None:
    """Take connections from a pool of DATABASE_POOL; 0: one for each thread. Call before the first query."""
    if settings.DATABASE_POOL:
        default = connections.settings["default"]
        pool = {"min_size": 1, "max_size": settings.DATABASE_POOL, "timeout": PATIENCE_S}
        default["CONN_MAX_AGE"] = 0  # given back at the end of each request
        default["OPTIONS"] = {**default["OPTIONS"], "pool": pool}
