"""Step 1,000 against step 10, in time and WAL: two runs, one of them long already, a step each in turn."""

from __future__ import annotations

import asyncio
import gc
import statistics
from collections.abc import Iterator

from tests.bench import raw, report
from tests.bench.turns import Step, alternate, driven
from tests.bench.work import Probe, probe

EARLY, LATE, WINDOW = 10, 1000, 60
"""Steps told, and how many from each on; checkpoints, every ten steps, are in both windows alike."""
ROUNDS = 3


def main() -> None:
    look = probe(**raw.login())
    rounds = [asyncio.run(measured(look)) for _ in range(ROUNDS)]
    for what, unit in (("time", "ms"), ("WAL", "bytes")):
        early, late = (statistics.median(found[what, age] for found in rounds) for age in ("early", "late"))
        share = statistics.median(found[what, "late"] / found[what, "early"] for found in rounds)
        said = report.at_most(f"growth in {what}, step {LATE:,} / step {EARLY}", share, 1.1)
        print(f"{said}: {early:,.2f} -> {late:,.2f} {unit}")
    print(flush=True)


async def measured(look: Probe) -> dict[tuple[str, str], float]:
    """Median milliseconds and mean bytes of WAL of a step, early and late."""
    gc.collect()
    async with driven() as (short, _), driven() as (long, _):
        for _ in range(EARLY - 5):
            await short()
        for _ in range(LATE - 5):
            await long()
        written: dict[str, list[int]] = {"early": [], "late": []}

        def looked_at(age: str, step: Step) -> Step:
            async def stepped() -> float:
                before = look().wal
                ms = await step()
                written[age].append(look().wal - before)
                return ms

            return stepped

        times = await alternate({"early": looked_at("early", short), "late": looked_at("late", long)}, WINDOW)
    return dict(both(times, written))


def both(times: dict[str, list[float]], written: dict[str, list[int]]) -> Iterator[tuple[tuple[str, str], float]]:
    for age in times:
        yield ("time", age), statistics.median(times[age])
        yield ("WAL", age), statistics.fmean(written[age])
