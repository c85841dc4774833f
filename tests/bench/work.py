"""The work that every engine is given, and how it is measured. No Django here: the peers' environment imports it too.

A step is one no-op model call with a constant tool call and one no-op tool that returns 0.8 KB, durable after each; the
history grows by 1 KB a step. Its time is the distance between two model calls: all that the engine adds, and no more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg

WORDS = (
    "order",
    "shipment",
    "refund",
    "customer",
    "status",
    "invoice",
    "carrier",
    "tracking",
    "policy",
    "region",
    "total",
)


def text(seed: int, size: int) -> str:
    """Repeatable text that compresses about as real tool output does."""
    chance = random.Random(seed)
    parts: list[str] = []
    while sum(map(len, parts)) + len(parts) < size:
        parts.append(chance.choice(WORDS) + (str(chance.randrange(10**6)) if chance.random() < 0.3 else ""))
    return " ".join(parts)[:size]


ARGUMENTS = {"query": text(7, 120), "limit": 10}
RESULTS = [text(number, 800) for number in range(64)]


@dataclass(frozen=True)
class Look:
    """What had been done by then."""

    wal: int
    """Bytes of WAL."""
    commits: int
    """Transactions that wrote: only these wait for the disk."""
    cpu: float
    """Seconds that this process, the server not included, had computed."""


Probe = Callable[[], Look]


def probe(**login: Any) -> Probe:
    """Looks at the server through a connection of its own."""
    connection = psycopg.connect(**login, autocommit=True, prepare_threshold=0)
    asked = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_snapshot_xmax(pg_current_snapshot())::text"

    def look() -> Look:
        row = connection.execute(asked).fetchone()
        assert row is not None
        return Look(int(row[0]), int(row[1]), time.process_time())

    return look


@dataclass(frozen=True)
class Took:
    """One run: the seconds of each step, and what all its steps took together."""

    seconds: list[float]
    wal: int
    commits: int
    cpu: float

    @property
    def ms(self) -> float:
        """Of a step, on average: a pause now and then counts."""
        return sum(self.seconds) / len(self.seconds) * 1e3


class Marks:
    """Notes when the model is asked, and looks at the server at the first and the last question."""

    def __init__(self, steps: int, look: Probe | None = None) -> None:
        self.steps = steps
        self.times: list[float] = []
        self.looks: dict[int, Look] = {}
        self._look = look

    def ask(self) -> int:
        """The number of this question, from 1; the one after the last step is the end."""
        number = len(self.times) + 1
        if number == 1:  # before the first mark and after all others: no step holds the first or the last look
            self._note(number)
        self.times.append(time.perf_counter())
        if number > 1:
            self._note(number)
        return number

    def _note(self, number: int) -> None:
        if self._look and number in (1, self.steps + 1):
            self.looks[number] = self._look()

    def seconds(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.times)]

    def took(self) -> Took:
        first, last = self.looks[1], self.looks[self.steps + 1]
        return Took(self.seconds(), last.wal - first.wal, last.commits - first.commits, last.cpu - first.cpu)
