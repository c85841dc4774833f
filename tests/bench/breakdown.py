"""Where the time of a step goes, measured by leaving parts away: said when a target was missed.

Runs with the journal in memory, with the journal's SQL prepared but never sent, with a server that does not wait for
the disk, and whole, a step each in turn, beside two bare commits. The differences are the parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import psycopg

from tests import fakes
from tests.bench import raw
from tests.bench.turns import Step, alternate, driven
from tests.bench.work import Marks

ROUNDS = 300
APPEND = "journal_append"


def main() -> None:
    raw.prepare()
    found = asyncio.run(measured())
    loop, python, server, whole, bare = (statistics.median(steps) for steps in found.values())
    parts = {
        "the loop in Python": loop,
        "facts and rows to one SQL call, in Python": python - loop,
        "Postgres and the way there": server - python,
        "waiting for the disk": whole - server,
    }
    said = "; ".join(f"{name} {ms:.2f} ({ms / whole:.0%})" for name, ms in parts.items())
    beside = f"two commits {bare:.2f}, ratio {whole / bare:.2f}"
    print(f"where the time goes, ms of the median step's {whole:.2f} ({beside}): {said}")


async def measured() -> dict[str, list[float]]:
    gc.collect()
    async with (
        driven(fakes.Journal()) as (loop, _),
        driven() as (python, unsent_one),
        driven() as (server, undurable),
        driven() as (whole, _),
    ):
        undurable.connection.execute("SET synchronous_commit = off")
        with unsent(unsent_one.connection), raw.connected() as connection:
            ways = {"loop": loop, "python": python, "server": server, "whole": whole, "bare": bare(connection)}
            return await alternate(ways, ROUNDS)


def bare(connection: Any) -> Step:
    async def step() -> float:
        began = time.perf_counter()
        raw.run(connection, Marks(1))
        return (time.perf_counter() - began) * 1e3

    return step


@contextlib.contextmanager
def unsent(connection: Any) -> Iterator[None]:
    """Appends on this connection end where they would be sent."""
    send, kept = psycopg.Cursor.execute, []

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if self.connection is not connection or APPEND not in str(query):
            return send(self, query, *arguments, **options)
        kept.append(query)
        return self

    with mock.patch.object(psycopg.Cursor, "execute", execute):
        yield
    assert len(kept) >= ROUNDS, f"{APPEND} is not what the journal calls"
