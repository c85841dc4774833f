"""How soon a tool is known: from the last byte of its name on the wire to the event, through the real SDKs."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Literal

from loops.engine.values import CallDetected, ModelEvent
from loops.llm.registry import ModelService
from tests.bench import report
from tests.wire.client import COUNT, config, request
from tests.wire.say import Say
from tests.wire.server import WireServer

CALLS = 200
TARGET_MS = 5.0
SAID = Say(thinking="Let me think. " * 20, text="I count now. " * 20, calls=[(COUNT.name, {"names": ["x" * 400]})])


def main() -> None:
    for provider in ("anthropic", "openai"):
        delays = sorted(asyncio.run(measured(provider)))
        worst = delays[int(len(delays) * 0.99)]
        said = report.at_most(f"{provider}: name to event, median ms", statistics.median(delays), TARGET_MS)
        print(f"{said}; 99 of 100 within {worst:.2f} ms")
    print(flush=True)


async def measured(provider: Literal["anthropic", "openai"]) -> list[float]:
    """Milliseconds of so many answers; the server writes one event at a time, and goes on writing after the name."""
    delays: list[float] = []
    with WireServer(lambda seen: SAID, pace=0.001) as server:
        server.watch_for = f'"name": "{COUNT.name}"'.encode()
        service = ModelService({"m": config(server, provider)})

        def heard(event: ModelEvent) -> None:
            if isinstance(event, CallDetected):
                delays.append((time.monotonic() - server.named_at) * 1000)

        for _ in range(CALLS):
            await service.call(request(), heard)
        await service.close()
    assert len(delays) == CALLS
    return delays
