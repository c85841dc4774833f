"""What happened in a run after a fact, read once and rendered once per audience (architecture#live, SPEC R2)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from django.db import close_old_connections

from loops.models import Run
from loops.printable.text import printable
from loops.storage.status import WAITING_FOR_RESOURCE
from loops.web import formatting, open_gates, timeline
from loops.web.access import Audience
from loops.web.live import frames as live_frames
from loops.web.live import messages, query

T = TypeVar("T")
MOST_CARDS = timeline.WINDOW
"""A page that was away for longer gets the latest cards, and a gap in place of the others."""
_ENDS = {"RunEnded", "RunResumed"}
THREADS = 2
_asking = ThreadPoolExecutor(THREADS, thread_name_prefix="live-asking")
_telling = ThreadPoolExecutor(THREADS, thread_name_prefix="live-telling")
"""Whoever comes, or comes back, waits for others who do; those who are up to date wait for neither."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything after fact ``after`` up to ``seq``: for each audience the messages of one frame, made once for all.

    Without ``news`` there is no later fact. What a run waits for may be nearer all the same, so that of one which waits
    for a resource the frames hold the head."""

    after: int
    seq: int
    frames: Mapping[Audience, tuple[str, ...]] = field(default_factory=dict)
    news: bool = True


async def in_thread(work: Callable[[], T], threads: ThreadPoolExecutor = _asking) -> T:
    """Run database work beside the event loop, in threads of our own: pages never wait for sockets."""

    def task() -> T:
        close_old_connections()
        return work()

    return await asyncio.get_running_loop().run_in_executor(threads, task)


async def read(run_id: uuid.UUID, after: int, audiences: Iterable[Audience]) -> Changes | None:
    """What happened, for those who watch; None when the run is gone."""
    return await in_thread(lambda: _read(run_id, after, list(audiences)), _telling)


class Missed:
    """What those ask for who come or fell behind. Equal questions that wait for a thread get one answer: a reading
    that has begun is not shared, for it may not hold what was committed before the question."""

    def __init__(self, run_id: uuid.UUID) -> None:
        self._run_id = run_id
        self._waiting: dict[tuple[int, Audience], asyncio.Task[Changes | None]] = {}

    async def since(self, after: int, audience: Audience) -> Changes | None:
        """Everything after fact ``after``; None when the run is gone."""
        asked = self._waiting.get((after, audience))
        if asked is None:
            asked = asyncio.create_task(in_thread(lambda: self._read(after, audience)))
            self._waiting[after, audience] = asked
        return await asyncio.shield(asked)  # who leaves takes the answer from nobody

    def _read(self, after: int, audience: Audience) -> Changes | None:
        self._waiting.pop((after, audience), None)
        return _read(self._run_id, after, [audience])


async def head(run_id: uuid.UUID) -> int:
    """Sequence number of the latest committed fact."""
    return await in_thread(lambda: Run.objects.values_list("head_seq", flat=True).get(pk=run_id))


def _read(run_id: uuid.UUID, after: int, audiences: list[Audience]) -> Changes | None:
    found = query.read(run_id, after, MOST_CARDS)
    if found is None:
        return None
    if found.seq is None:
        return Changes(after, after, _standing(found.run, audiences), news=False)
    cards = timeline.opened(timeline.build(found.run, found.rows), found.at)
    for card in cards:  # so that what a person waits for can be measured
        card.committed_at = found.at[card.number]
    missed = live_frames.gap(found.run, found.missed) if found.missed else ""
    end = live_frames.fitting(live_frames.end(found.run), found.run) if found.kinds & _ENDS else ""
    none_yet = "" if cards else live_frames.none_yet(found.run)
    latest = max(found.rows.steps, key=lambda step: step.step_number, default=None)
    frames = {}
    for audience in audiences:
        parts = [
            live_frames.fitting(live_frames.card(found.run, card, audience), found.run, card.number) for card in cards
        ]
        body = {"t": "cards", "after": after, "seq": found.seq, "said": _say(found.run, found.kinds)}
        header = live_frames.fitting(live_frames.head(found.run, audience, found.granted, latest), found.run)
        frames[audience] = messages.of_parts([header, missed, *parts, none_yet, end], body)
    return Changes(after, found.seq, frames)


def _standing(run: Run, audiences: list[Audience]) -> dict[Audience, tuple[str, ...]]:
    """The head alone, of a run that stands still: others come on in the line, a person decides."""
    if run.status not in (WAITING_FOR_RESOURCE, Run.Status.WAITING):
        return {}
    none_yet = "" if run.steps.exists() else live_frames.none_yet(run)
    heads = {one: live_frames.fitting(live_frames.head(run, one), run) for one in audiences}
    return {one: messages.of_parts([head, none_yet], {"t": "head"}) for one, head in heads.items()}


def _say(run: Run, kinds: Set[str]) -> str:
    """One line for screen readers, not one a fact."""
    if "RunEnded" in kinds:
        why = f" {formatting.ended(run)}." if run.end_reason else ""
        return f"The run ended: {run.get_status_display()}.{why}"
    if "GateOpened" in kinds:
        asked = open_gates.said(run) if run.waiting_on else "a decision"
        deed = open_gates.question_of(run)
        return printable(f"{run.task.title} waits for {asked}{f': {deed}' if deed else ''}.")
    if "StepCompleted" in kinds:
        return f"Step {run.total_steps} done."
    return ""
