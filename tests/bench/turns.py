"""Runs that take a step each in turn, so that whatever else the machine does hits all of them alike."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loops.engine.values import ModelReply, ModelRequest
from tests.bench import ours
from tests.bench.work import Marks

MANY = 10**4
Step = Callable[[], Awaitable[float]]
"""Takes one step; its milliseconds."""


class Turns:
    """A run whose model answers when it is told to; a step is what the run does from then to its next question."""

    def __init__(self) -> None:
        self._go, self._asked = asyncio.Event(), asyncio.Event()
        self._model = ours.Constant(Marks(MANY))
        self._answered = self._arrived = 0.0

    async def call(self, request: ModelRequest, on_event: Any) -> ModelReply:
        self._arrived = time.perf_counter()
        self._asked.set()
        await self._go.wait()
        self._go.clear()
        self._answered = time.perf_counter()
        return await self._model.call(request, on_event)

    async def step(self) -> float:
        self._asked.clear()
        self._go.set()
        await self._asked.wait()
        return (self._arrived - self._answered) * 1e3


@contextlib.asynccontextmanager
async def driven(store: Any = None) -> AsyncIterator[tuple[Step, Any]]:
    """A run at its first question, and its journal; given up at the end of the block."""
    turns = Turns()

    def prepared() -> tuple[Any, Any]:
        run = ours.new_run()
        journal = store or ours.journal_of(run)
        return journal, ours.driver(run, journal, Marks(MANY), model=turns)

    with ThreadPoolExecutor(1) as own:  # Django's connections belong to threads: every run gets one of its own
        journal, driver = await asyncio.get_running_loop().run_in_executor(own, prepared)
    task = asyncio.create_task(driver.drive())
    for _ in range(5):  # the first steps of a connection prepare its statements
        await turns.step()
    try:
        yield turns.step, journal
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if connection := getattr(journal, "connection", None):
            connection.close()


async def alternate(steps: Mapping[str, Step], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every step, one of each a round, in another order each time."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name in random.sample(list(steps), len(steps)):
            found[name].append(await steps[name]())
    return found
