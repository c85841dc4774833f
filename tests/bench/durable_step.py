"""What a durable step costs beyond the disk: ours, LangGraph and DBOS against two bare commits (benchmarks.md).

All engines do the same work on the same server in turn, in another order each round; every ratio is taken inside a
round, and the median of them is told.
"""

from __future__ import annotations

import contextlib
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from tests.bench import ours, raw, report, rivals
from tests.bench.ours import new_run as new_run
from tests.bench.work import ARGUMENTS as ARGUMENTS
from tests.bench.work import RESULTS as RESULTS
from tests.bench.work import Marks, Took, probe

ROUNDS = {20: 15, 100: 7, 500: 5}
"""By the number of steps of a run."""
Engine = Callable[[int], Took]
Found = dict[str, list[Took]]


def main() -> None:
    from django.conf import settings

    raw.prepare()
    with rivals.running(raw.login(), settings.PATHS.logs) as peers:
        engines = own_engines() | {name: peer.run for name, peer in peers.items()}
        for steps, rounds in ROUNDS.items():
            tell(steps, interleaved(engines, steps, rounds), target=2.0)
        with slow_flush():
            both = {name: engines[name] for name in ("two commits", "ours")}
            tell(20, interleaved(both, 20, 7), target=1.3, where=", each flush 2 ms slower")


def own_engines() -> dict[str, Engine]:
    connection, look = raw.connected(), probe(**raw.login())

    def measured(run: Callable[[Marks], None]) -> Engine:
        def engine(steps: int) -> Took:
            marks = Marks(steps, look)
            run(marks)
            return marks.took()

        return engine

    return {"two commits": measured(lambda marks: raw.run(connection, marks)), "ours": measured(ours.run)}


def interleaved(engines: dict[str, Engine], steps: int, rounds: int) -> Found:
    """Every engine in every round, in another order each time; one short run to warm up before."""
    for engine in engines.values():
        engine(20)
    found: Found = {name: [] for name in engines}
    for _ in range(rounds):
        for name in random.sample(list(engines), len(engines)):
            gc.collect()
            found[name].append(engines[name](steps))
    return found


def ratio(these: Sequence[Took], those: Sequence[Took]) -> float:
    """Median of the ratios taken round by round."""
    return statistics.median(one.ms / other.ms for one, other in zip(these, those, strict=True))


def tell(steps: int, found: Found, *, target: float, where: str = "") -> None:
    bare, mine = found["two commits"], found["ours"]
    rows = [
        [
            name,
            f"{statistics.median(each.ms for each in took):.2f}",
            f"{ratio(took, bare):.2f}",
            f"{ratio(took, mine):.2f}",
            f"{per_step(steps, [each.cpu for each in took]) * 1e3:.2f}",
            f"{per_step(steps, [each.wal for each in took]):,.0f}",
            f"{per_step(steps, [each.commits for each in took]):.2f}",
        ]
        for name, took in found.items()
    ]
    print(f"durable step, N={steps}{where}, {len(bare)} rounds")
    print(report.table(["", "ms a step", "/ two commits", "/ ours", "CPU ms", "WAL bytes", "commits"], rows))
    print(report.at_most(f"durable step, N={steps}{where}: ours / two commits", ratio(mine, bare), target))
    if not where:
        tell_the_rest(steps, found)
    print(flush=True)


def tell_the_rest(steps: int, found: Found) -> None:
    mine = found["ours"]
    print(report.at_most(f"N={steps}: WAL bytes a step", per_step(steps, [each.wal for each in mine]), 4096, ",.0f"))
    print(report.at_most(f"N={steps}: commits a step", per_step(steps, [each.commits for each in mine]), 2.2))
    if steps == 500:
        for name, took in found.items():
            if least := next((10.0 if name.startswith("L") else 5.0 for peer in rivals.MODULES if peer in name), None):
                print(report.at_least(f"N=500: {name} / ours", ratio(took, mine), least, ".1f"))


def per_step(steps: int, totals: Sequence[float]) -> float:
    return statistics.median(totals) / steps


@contextlib.contextmanager
def slow_flush(microseconds: int = 2000) -> Iterator[None]:
    """Let every commit sleep before its flush, as on a network disk: the least noisy setting there is."""
    names = {"commit_delay": microseconds, "commit_siblings": 0}
    with raw.connected() as connection:
        for name, value in names.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)  # the servers' processes take their new settings between two statements
        yield
        for name in names:
            connection.execute(f"ALTER SYSTEM RESET {name}")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)
