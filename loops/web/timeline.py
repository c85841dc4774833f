"""The trace of a run as cards: one a step, with whatever happened around it (SPEC R1-R3).

A card is built from the projections; facts add only what no table holds (messages, retries, checks, the end).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from loops.models import Fact, ModelCall, Run, Step, ToolCallRecord
from loops.web import formatting, open_gates
from loops.web.notes import NOTED, Note, note_of

WINDOW = 50
FULL = 12  # cards of a window that come with their body; older ones fetch it when opened
OPEN = 3
LARGE = 20_000
"""Characters of a step, a line of a diff counted as LINE more: a longer body is fetched by itself, after its page."""
LINE = 120


SAID = {"wait": "Waiting for a person", "busy": "In progress", "good": "Done", "bad": "Failed", "idle": ""}


def look_of(step: Any, gates: Iterable[Any], *, ended: bool = False) -> str:
    """How a step stands: idle (there is none, or its run ended before it), wait, busy, good or bad."""
    if step is None:
        return "idle"
    if any(gate.status == "open" for gate in gates):
        return "wait"
    if step.success is None:
        return "idle" if ended else "busy"
    return "good" if step.success else "bad"


@dataclass(slots=True)
class Card:
    """Everything shown of one step. Number 0 holds what happened before the first."""

    number: int
    step: Step | None = None
    calls: list[ToolCallRecord] = field(default_factory=list)
    models: list[ModelCall] = field(default_factory=list)
    gates: list[Any] = field(default_factory=list)
    before: list[Note] = field(default_factory=list)
    after: list[Note] = field(default_factory=list)
    committed_at: datetime | None = None
    streams: bool = False
    """The model is being asked: streamed text belongs here."""
    stream: str = ""
    """Name of that text: the request's own, so that a second attempt never continues the first."""
    lazy: bool = False
    open: bool = False
    ended: bool = False
    """The run is over: nothing here goes on."""

    @property
    def look(self) -> str:
        return look_of(self.step, self.gates, ended=self.ended)

    @property
    def said_look(self) -> str:
        return SAID[self.look] or ("Not finished" if self.step else "")

    @property
    def reused(self) -> Mapping[str, Any]:
        """What the run this step was taken over from paid for its answer; empty for a step of its own."""
        return (self.step.action or {}).get("reused") or {} if self.step else {}

    @property
    def summary(self) -> str:
        """One line that tells the step apart from its neighbours."""
        if self.calls:
            return formatting.one_line(self.calls[0].arguments)
        text = (self.step.said or self.step.reasoning) if self.step else ""
        return formatting.one_line(text)

    @property
    def tools(self) -> list[tuple[str, int]]:
        """Each tool once, with how often it was called."""
        return list(Counter(call.tool for call in self.calls).items())

    @property
    def is_large(self) -> bool:
        """Whether what it shows is too much to come along with other things."""
        texts = [self.step.said, self.step.reasoning, self.step.error] if self.step else []
        return sum(map(len, texts)) + sum(map(_length, self.calls)) > LARGE

    @property
    def cost_unknown(self) -> bool:
        return any(model.cost_microusd is None for model in self.models)


@dataclass(slots=True)
class Rows:
    """What the tables hold of some steps. ``notes``: (seq, kind, step, at, body) of facts, in order."""

    steps: Sequence[Step]
    calls: Iterable[ToolCallRecord]
    models: Iterable[ModelCall]
    gates: Iterable[Any]
    notes: Iterable[tuple[int, str, int, datetime, bytes]]


def latest(run: Run, before: int | None = None) -> list[Card]:
    """A window of cards, oldest first: the latest ones, or those before step ``before``."""
    steps = run.steps.order_by("-step_number")
    if before is not None:
        steps = steps.filter(step_number__lt=before)
    found = list(steps[:WINDOW])[::-1]
    first = found[0].step_number if found and len(found) == WINDOW else 0
    cards = build(run, stored(run, found, first=first, last=before - 1 if before is not None else None))
    for position, card in enumerate(reversed(cards)):
        is_old = (position >= FULL or before is not None) and card.look != "wait"
        card.lazy = card.step is not None and (is_old or card.is_large)
        card.open = before is None and (position < OPEN or card.look in ("wait", "busy"))
    return cards


@dataclass(frozen=True, slots=True)
class Gap:
    """Steps of a run that are not on the page, the first and the last of them."""

    first: int
    last: int

    @property
    def steps(self) -> int:
        return self.last - max(self.first, 1) + 1


def within(run: Run, gap: Gap, at: int | None = None) -> list[Card | Gap]:
    """A window of cards out of a gap, around step ``at`` or else its latest, and what stays a gap before and after."""
    low = max(gap.first, gap.last - WINDOW + 1) if at is None else max(gap.first, at - WINDOW // 2)
    high = min(gap.last, low + WINDOW - 1)
    low = gap.first if low <= 1 else low  # what happened before the first step has a card, but is none
    steps = list(run.steps.filter(step_number__gte=low, step_number__lte=high).order_by("step_number"))
    cards = build(run, stored(run, steps, first=low, last=high))
    for card in cards:
        card.open = card.number == at or card.look == "wait"
        card.lazy = card.step is not None and (not card.open or card.is_large)
    before = [Gap(gap.first, low - 1)] if low > gap.first else []
    after = [Gap(high + 1, gap.last)] if high < gap.last else []
    return [*before, *cards, *after]


def some(run: Run, numbers: Iterable[int]) -> list[Card]:
    """The cards of these steps, whole and open."""
    wanted = sorted(set(numbers))
    if not wanted:
        return []
    steps = list(run.steps.filter(step_number__in=wanted))
    cards = build(run, stored(run, steps, first=wanted[0], last=wanted[-1]))
    return opened(cards, set(wanted))


def opened(cards: Iterable[Card], numbers: Container[int]) -> list[Card]:
    """Those of these steps, open. Of many that come at once, a large one that is not among the latest is fetched when
    it is opened."""
    found = [card for card in cards if card.number in numbers]
    for position, card in enumerate(reversed(found)):
        card.lazy = card.is_large
        card.open = not card.lazy or position < OPEN or card.look in ("wait", "busy")
    return found


def _length(call: ToolCallRecord) -> int:
    """Of what is shown of a call, about."""
    diff = str((call.data or {}).get("diff") or "")
    arguments = sum(len(str(value)) for value in (call.arguments or {}).values())
    return arguments + len(call.output) + len(call.error) + len(diff) + LINE * diff.count("\n")


def stored(run: Run, steps: Sequence[Step], *, first: int, last: int | None) -> Rows:
    """What belongs to the steps ``first`` to ``last`` (None: to the end); four queries."""
    within = {"step_number__gte": first} | ({"step_number__lte": last} if last is not None else {})
    return Rows(
        steps=steps,
        calls=ToolCallRecord.objects.filter(run=run, **within).defer("idempotency_key"),
        models=ModelCall.objects.filter(run=run, **within),
        gates=gates_of(run).filter(**within),
        notes=_noted(run.pk, steps, first, last),
    )


def gates_of(run: Run) -> Any:
    """The gates of a run as cards show them."""
    gates = open_gates.gates().objects.filter(run=run).select_related("decision__decided_by")
    return gates.defer("subject").order_by("id")


def build(run: Run, rows: Rows) -> list[Card]:
    """A card for each step that something is known of."""
    cards: dict[int, Card] = {step.step_number: Card(step.step_number, step, ended=run.is_ended) for step in rows.steps}
    for call in rows.calls:
        if call.step_number in cards:
            cards[call.step_number].calls.append(call)
    for model in rows.models:
        if model.step_number in cards:
            cards[model.step_number].models.append(model)
    for gate in rows.gates:
        cards.setdefault(gate.step_number, Card(gate.step_number)).gates.append(gate)
    _add_notes(run, cards, rows)
    return [cards[number] for number in sorted(cards)]


def _add_notes(run: Run, cards: dict[int, Card], rows: Rows) -> None:
    """Facts that no table holds, beside the step they fell into."""
    asked: dict[int, int] = {}
    for seq, kind, step, at, body in rows.notes:
        if kind == "ModelRequested":
            asked[step] = seq
        note = note_of(seq, kind, at, bytes(body))
        if note is None or (kind == "RunEnded" and run.is_ended):  # the end has a card of its own
            continue
        card = cards.setdefault(step, Card(step))
        early = bool(card.step and seq < card.step.first_seq)
        (card.before if early else card.after).append(note)
        if kind in ("ModelFailed", "ModelInterrupted"):
            asked.pop(step, None)
    for number, seq in asked.items():
        if (asking := cards.get(number)) and asking.step:
            asking.stream = f"m{seq}"
            under_way = asking.step.success is None and not run.is_ended
            asking.streams = under_way and all(model.seq < seq for model in asking.models)


def _noted(run_id: uuid.UUID, steps: Sequence[Step], first: int, last: int | None) -> Any:
    facts = Fact.objects.filter(run_id=run_id, kind__in=NOTED, step__gte=first)
    if first and steps:
        facts = facts.filter(seq__gte=min(step.first_seq for step in steps) - 1)  # the key's range, not the whole run
    if last is not None:
        facts = facts.filter(step__lte=last)
    return facts.order_by("seq").values_list("seq", "kind", "step", "at", "body")
