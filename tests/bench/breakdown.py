"""Where the time of a step goes, measured by leaving parts away: said when a target about it was missed.

The same run with the journal in memory, with the journal's SQL prepared but never sent, with a server that does not
wait for the disk, and whole, in turn. The differences are the parts.
"""

from __future__ import annotations

import contextlib
import gc
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import psycopg

from tests import fakes
from tests.bench import ours
from tests.bench.work import Marks

STEPS, ROUNDS = 100, 7
APPEND = "journal_append"


class Enough(Exception):
    """The steps are over; a journal that wrote nothing cannot end its run."""


def main() -> None:
    ways: dict[str, Callable[[], float]] = {
        "loop": lambda: driven(fakes.Journal()),
        "python": lambda: driven(None, unsent),
        "server": lambda: driven(None, undurable),
        "whole": lambda: driven(None),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name in random.sample(list(ways), len(ways)):
            gc.collect()
            found[name].append(ways[name]())
    loop, python, server, whole = (statistics.median(found[name]) for name in ("loop", "python", "server", "whole"))
    parts = {
        "the loop in Python": loop,
        "facts and rows to one SQL call, in Python": python - loop,
        "Postgres and the way there": server - python,
        "waiting for the disk": whole - server,
    }
    said = "; ".join(f"{name} {ms:.2f} ({ms / whole:.0%})" for name, ms in parts.items())
    print(f"where the time goes, ms of a step's {whole:.2f} (median step, N={STEPS}): {said}")


def driven(store: Any, under: Callable[[Any], contextlib.AbstractContextManager[Any]] | None = None) -> float:
    """Milliseconds of the median step of one run that is given up behind its last step."""

    def stop(number: int, request: Any) -> None:
        if number > STEPS:
            raise Enough

    run, marks = ours.new_run(), Marks(STEPS)
    store = store or ours.journal_of(run)
    made = ours.driver(run, store, marks, model=ours.Constant(marks, stop))
    with under(store) if under else contextlib.nullcontext(), contextlib.suppress(Enough):
        ours.drive(made)
    return statistics.median(marks.seconds()) * 1e3


@contextlib.contextmanager
def unsent(store: Any) -> Iterator[None]:
    """Appends end where they would be sent."""
    send, kept = psycopg.Cursor.execute, []

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if APPEND not in str(query):
            return send(self, query, *arguments, **options)
        kept.append(query)
        return self

    with mock.patch.object(psycopg.Cursor, "execute", execute):
        yield
    assert len(kept) >= STEPS, f"{APPEND} was not what the journal called"


@contextlib.contextmanager
def undurable(store: Any) -> Iterator[None]:
    store.connection.execute("SET synchronous_commit = off")
    yield
    store.connection.execute("RESET synchronous_commit")
