"""The loop of the monitor: one at a time, whatever happens to the database."""

from __future__ import annotations

import logging
import threading
import uuid

from django.db import Error, connection

from loops.monitor.alerts import tell
from loops.monitor.embeddings import Meanings
from loops.monitor.policy import Policy
from loops.monitor.queries import RunSeen, live_runs, news
from loops.monitor.rules import notice
from loops.monitor.state import Memory

log = logging.getLogger(__name__)
LOCK = (0x6C6F6F70, 0x6D6F6E69)
"""Of the database, held by the session that watches: others stand by, and its session's last query is its heartbeat."""
_HOLD = """
    SELECT CASE WHEN pg_backend_pid() = %s THEN true ELSE pg_try_advisory_lock(%s, %s) END, pg_backend_pid()
"""
_ALIVE = """
    SELECT extract(epoch FROM clock_timestamp() - session.state_change)::float
    FROM pg_locks held JOIN pg_stat_activity session USING (pid)
    WHERE held.locktype = 'advisory' AND held.granted AND (held.classid, held.objid) = (%s, %s)
      AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Monitor:
    """``look`` is one pass; ``run`` repeats it until it is told to stop. ``meanings`` is an extra (SPEC F2)."""

    def __init__(self, policy: Policy, meanings: Meanings | None = None) -> None:
        self._policy = policy
        self._meanings = meanings
        self._memories: dict[uuid.UUID, Memory] = {}
        self._holder = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if self.holds():
                    self.look()
            except Error as error:  # the database is away: it comes back, and so do we
                log.warning("the monitor waits for the database: %s", next(iter(str(error).splitlines()), ""))
                self._holder = 0
                connection.close()
            stop.wait(self._policy.every_s)

    def holds(self) -> bool:
        """Is this the one that watches? Its right is lost with its session, and asked for again at every look."""
        with connection.cursor() as cursor:
            cursor.execute(_HOLD, [self._holder, *LOCK])
            held, session = cursor.fetchone()
        if held and not self._holder:
            log.debug("watching")
        self._holder = session if held else 0
        return bool(held)

    def look(self) -> int:
        """One pass over the live runs. Returns how many findings were new."""
        runs = live_runs()
        self._remember(runs)
        if self._meanings:
            self._meanings.learn(self._memories)
        told = 0
        for run in runs:
            memory = self._memories[run.id]
            for noticed in notice(run, memory, self._policy):
                if memory.is_news(noticed.finding):
                    told += tell(run, noticed)
        return told

    def _remember(self, runs: list[RunSeen]) -> None:
        self._memories = {run.id: self._memories.get(run.id) or Memory() for run in runs}
        moved = {run.id: self._memories[run.id].seq for run in runs if run.seq > self._memories[run.id].seq}
        found = news(moved)
        for run in runs:
            memory = self._memories[run.id]
            memory.learn(found.get(run.id, ()))
            memory.seq = run.seq
            memory.sample(run, self._policy)


def silent_s() -> float | None:
    """How long ago the monitor last looked; None when none watches."""
    with connection.cursor() as cursor:
        cursor.execute(_ALIVE, LOCK)
        row = cursor.fetchone()
    return None if row is None else max(0.0, float(row[0]))
