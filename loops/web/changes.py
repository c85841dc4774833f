"""What happened in a run after a fact, read once and rendered once per audience (ARCHITECTURE 7, SPEC R2)."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db import close_old_connections, connections

from loops.models import Fact, Run
from loops.web import fragments, timeline
from loops.web.access import Audience

T = TypeVar("T")
MOST_CARDS = timeline.WINDOW
"""A page that was away for longer gets the latest cards; older ones are behind "show earlier"."""
THREADS = 2
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="live")


@dataclass(slots=True)
class Changes:
    """Everything after fact ``after`` up to ``seq``."""

    after: int
    seq: int
    html: dict[Audience, str] = field(default_factory=dict)
    said: str = ""

    def frame(self, audience: Audience, after: int | None = None) -> str:
        """The bytes for everyone in the audience are the same, so they are made once."""
        body = {"t": "cards", "after": self.after if after is None else after, "seq": self.seq}
        return json.dumps({**body, "html": self.html[audience], "said": self.said})


async def in_thread(work: Callable[[], T]) -> T:
    """Run database work beside the event loop, in threads of our own: pages never wait for sockets."""

    def task() -> T:
        close_old_connections()
        return work()

    return await asyncio.get_running_loop().run_in_executor(_threads, task)


def let_go() -> None:
    """Close the database connections of our threads, each in its own."""
    together = threading.Barrier(THREADS)

    def close() -> None:
        together.wait(5)
        connections.close_all()

    for done in [_threads.submit(close) for _ in range(THREADS)]:
        done.result()


async def read(run_id: uuid.UUID, after: int, audiences: Iterable[Audience]) -> Changes | None:
    """None when the run is gone."""
    return await in_thread(lambda: _read(run_id, after, list(audiences)))


async def head(run_id: uuid.UUID) -> int:
    """Sequence number of the latest committed fact."""
    return await in_thread(lambda: Run.objects.values_list("head_seq", flat=True).get(pk=run_id))


def _read(run_id: uuid.UUID, after: int, audiences: list[Audience]) -> Changes | None:
    facts = list(
        Fact.objects.filter(run_id=run_id, seq__gt=after).order_by("seq").values_list("seq", "kind", "step", "at")
    )
    run = Run.objects.with_names().filter(pk=run_id).first()
    if run is None:
        return None
    if not facts:
        return Changes(after, after, dict.fromkeys(audiences, ""))
    steps = sorted({step for _, _, step, _ in facts})[-MOST_CARDS:]
    cards = timeline.some(run, steps)
    _stamp(cards, facts)
    found = Changes(after, facts[-1][0], said=_say(run, [kind for _, kind, _, _ in facts]))
    ended = any(kind in ("RunEnded", "RunResumed") for _, kind, _, _ in facts)
    for audience in audiences:
        parts = [fragments.head(run, audience), *(fragments.card(run, card, audience) for card in cards)]
        found.html[audience] = "".join([*parts, *([fragments.end(run)] if ended else [])])
    return found


def _stamp(cards: list[timeline.Card], facts: list[tuple[int, str, int, datetime]]) -> None:
    """Let each card carry when its latest fact was made, so that what a person waits for can be measured."""
    latest = {step: at for _, _, step, at in facts}
    for card in cards:
        card.committed_at = latest.get(card.number)


def _say(run: Any, kinds: list[str]) -> str:
    """One line for screen readers, not one a fact."""
    if "RunEnded" in kinds:
        return f"The run ended: {run.get_status_display()}."
    if "GateOpened" in kinds:
        return "The run waits for a person."
    if "StepCompleted" in kinds:
        return f"Step {run.total_steps} done."
    return ""
