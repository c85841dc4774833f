"""Step 1,000 against step 10, in time and WAL: two runs, one of them long already, a step each in turn (PERFORMANCE 1).

Their steps alternate, so that what else the machine does hits both alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import statistics
import time
from typing import Any

from loops.engine.values import ModelReply, ModelRequest
from tests.bench import ours, raw, report
from tests.bench.work import Look, Marks, probe

EARLY, LATE, WINDOW = 10, 1000, 60
"""Steps told, and how many around each; checkpoints, every ten steps, are in both windows alike."""
ROUNDS = 3


def main() -> None:
    look = probe(**raw.login())
    rounds = [asyncio.run(alternated(Turns(), Turns(), look)) for _ in range(ROUNDS)]
    for place, (what, unit) in enumerate((("time", "ms"), ("WAL", "bytes"))):
        early, late, share = (statistics.median(found[place][column] for found in rounds) for column in range(3))
        said = report.at_most(f"growth in {what}, step {LATE:,} / step {EARLY}", share, 1.1)
        print(f"{said}: {early:,.2f} -> {late:,.2f} {unit}")
    print(flush=True)


class Turns:
    """A run whose model answers when it is told to; a step is what the run does from then to its next question."""

    def __init__(self) -> None:
        self._go, self._asked = asyncio.Event(), asyncio.Event()
        self._model = ours.Constant(Marks(10**6))
        self._answered = self._arrived = 0.0

    async def call(self, request: ModelRequest, on_event: Any) -> ModelReply:
        self._arrived = time.perf_counter()
        self._asked.set()
        await self._go.wait()
        self._go.clear()
        self._answered = time.perf_counter()
        return await self._model.call(request, on_event)

    @contextlib.asynccontextmanager
    async def driving(self) -> Any:
        """Up to its first question; given up at the end of the block."""
        run = await asyncio.to_thread(ours.new_run)
        made = await asyncio.to_thread(lambda: ours.driver(run, ours.journal_of(run), Marks(10**4), model=self))
        task = asyncio.create_task(made.drive())
        await self._asked.wait()
        yield self
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def step(self) -> float:
        """Milliseconds of the next step."""
        self._asked.clear()
        self._go.set()
        await self._asked.wait()
        return (self._arrived - self._answered) * 1e3


Told = tuple[float, float, float]
"""(early, late, late / early)."""


async def alternated(short: Turns, long: Turns, look: Any) -> tuple[Told, Told]:
    """Median milliseconds and mean bytes of WAL of the steps in each window."""
    gc.collect()
    async with short.driving(), long.driving():
        for _ in range(LATE - WINDOW // 2):
            await long.step()
        for _ in range(5):  # the first steps of a process prepare its statements
            await short.step()
        times: dict[Turns, list[float]] = {short: [], long: []}
        bytes_: dict[Turns, list[int]] = {short: [], long: []}
        for _ in range(WINDOW):
            for run in random.sample([short, long], 2):
                before: Look = look()
                times[run].append(await run.step())
                bytes_[run].append(look().wal - before.wal)
    return (
        told(*(statistics.median(times[run]) for run in (short, long))),
        told(*(statistics.fmean(bytes_[run]) for run in (short, long))),
    )


def told(early: float, late: float) -> Told:
    return early, late, late / early
