"""What was refused before anybody was known, in the audit log (SPEC N2): counted, and written together.

A stranger can send as many requests as there is bandwidth, so a row for each would let strangers fill the table. Each
process counts by address and kind, writes once a minute, and writes at most `MOST` rows then; what came from still more
addresses is summed up in one of them.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

from agentops.edge.client_address import ONE_HOME, counted, of_connection
from loops.services import audit

log = logging.getLogger(__name__)
EVERY_S = 60.0
"""How long refusals are counted before they are written."""
MOST = 20
"""Rows of one process in that time."""
PATHS = 5
"""Addresses that are named in one row."""
PATH_SHOWN = 100
OTHERS = "others"
"""Instead of the address, in the row of all that `MOST` has no room for."""


@dataclass
class Tally:
    """What one address was refused, or, of IPv6, one network."""

    address: str
    count: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    paths: dict[str, None] = field(default_factory=dict)

    def add(self, address: str, status: int, path: str) -> None:
        if address != self.address:
            self.address = f"{counted(address)}/{ONE_HOME}"
        self.count += 1
        self.statuses[str(status)] += 1
        if len(self.paths) < PATHS:
            self.paths[path[:PATH_SHOWN]] = None

    def told(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "count": self.count,
            "statuses": dict(self.statuses),
            "paths": list(self.paths),
        }


class Counts:
    """Refusals since they were last written. Safe to call from any thread, and never waits for the database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._timer: threading.Timer | None = None

    def add(self, kind: str, address: str, status: int, path: str) -> None:
        """Count one refusal, ``kind`` being that of its audit row."""
        with self._lock:
            key = (kind, counted(address))
            if key not in self._tallies and len(self._tallies) >= MOST - 1:
                key, address = ("request.refused", OTHERS), OTHERS
            self._tallies.setdefault(key, Tally(address)).add(address, status, path)
            if self._timer is None:
                self._timer = threading.Timer(EVERY_S, self._write_and_let_go)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write what was counted, in one go."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if not tallies:
            return
        try:
            with transaction.atomic():
                for (kind, _), tally in tallies.items():  # MOST at the most, by the one door of the audit log
                    audit.record(kind, actor=None, detail=tally.told())
        except Exception as error:  # a database that is away must not end the thread of a request, nor this one
            log.warning("refusals of %s addresses are not in the audit log: %s", len(tallies), error)

    def _write_and_let_go(self) -> None:
        self.write()
        connection.close()


counts = Counts()


def of_scope(scope: Any, status: int, path: str) -> None:
    """Count the refusal of an ASGI request."""
    headers = [(bytes(name), bytes(value)) for name, value in scope.get("headers", ())]
    peer = scope.get("client") or ("", 0)
    counts.add("request.refused", of_connection(str(peer[0]), forwarded(headers)), status, path)


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """What proxies say of where a request came from."""
    return ",".join(value.decode("latin-1") for name, value in headers if name.lower() == b"x-forwarded-for")
