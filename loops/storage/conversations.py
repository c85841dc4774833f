"""What a model was asked, request by request, made again from the journal and compared with its hash (SPEC R4, U1)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.engine import facts as f
from loops.engine.context_window.conversation import HEARD, extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding import canonical
from loops.models import Fact as FactRow
from loops.storage.encoding import decode_fact
from loops.storage.reader import Blobs

_KINDS = tuple(sorted({*HEARD, "ModelRequested"}))


@dataclass(frozen=True, slots=True)
class Pruning:
    """What was left out by the fact ``seq``: the messages ``first`` to ``last`` of the conversation before it."""

    seq: int
    step: int
    dropped: int
    shortened: int
    method: str
    model: str = ""


@dataclass(slots=True)
class ReplayedRequest:
    """A conversation up to some fact. ``asked`` is the latest request in it. ``matches``: is that request, made again,
    the very one that the journal names? None where it cannot be told."""

    transcript: Transcript = field(default_factory=Transcript)
    asked: f.ModelRequested | None = None
    step: int = 0
    matches: bool | None = None
    tools: Sequence[Any] = ()
    prunings: list[Pruning] = field(default_factory=list)
    sent: int = 0
    """Messages when a model was last asked: what stands behind them it has not read yet."""


def requests(run_id: uuid.UUID | str) -> list[tuple[int, int]]:
    """(sequence number, step) of every request to the acting model, in order."""
    rows = FactRow.objects.filter(run_id=run_id, kind="ModelRequested").order_by("seq")
    return list(rows.values_list("seq", "step"))


def told(run_id: uuid.UUID | str, until: int | None = None) -> ReplayedRequest:
    """The conversation as it stands, or as the request ``until`` sent it. Raises MissingBlob."""
    made, first, offered, own = ReplayedRequest(), None, "", True
    for seq, step, fact in _facts(run_id, until):
        if isinstance(fact, f.RunStarted):
            first, offered, own = fact, fact.tools_sha256, fact.forked_from is None
        own = own or isinstance(fact, f.Forked)
        if isinstance(fact, f.ModelRequested):
            offered = fact.tools_sha256 or offered
            made.tools = fact.tools or made.tools
            made.asked, made.step, made.sent = fact, step, len(made.transcript.turns)
            made.matches = _matches(made.transcript, fact, offered) if first and own else None
        elif isinstance(fact, f.ContextPruned) and fact.method != "none":
            pruning = Pruning(seq, step, fact.dropped_messages, fact.shortened, fact.method, fact.model)
            made.prunings.append(pruning)
        made.transcript = extend(made.transcript, fact)
    return made


def left_out(run_id: uuid.UUID | str, seq: int) -> list[dict[str, Any]]:
    """The messages that the pruning ``seq`` took out, as they were just before. Raises MissingBlob."""
    transcript = Transcript()
    for at, _, fact in _facts(run_id, seq):
        if at == seq:
            assert isinstance(fact, f.ContextPruned)
            return [canonical.clean_json(message) for message in transcript.messages[1 : fact.dropped_messages + 1]]
        transcript = extend(transcript, fact)
    return []


def _matches(transcript: Transcript, fact: f.ModelRequested, tools_sha256: str) -> bool | None:
    if not fact.max_tokens:  # written by a version that did not keep what the hash was made of
        return None
    made = transcript.request_sha256(fact.role, fact.model, tools_sha256, fact.max_tokens)
    return made == fact.request_sha256


def _facts(run_id: uuid.UUID | str, until: int | None) -> Iterator[tuple[int, int, f.Fact]]:
    """(sequence number, step, fact) of those that say something about the conversation."""
    rows = FactRow.objects.filter(run_id=run_id, kind__in=_KINDS)
    if until is not None:
        rows = rows.filter(seq__lte=until)
    found = list(rows.order_by("seq").values_list("seq", "step", "body"))
    blobs = Blobs(run_id, [bytes(body) for _, _, body in found])
    for seq, step, body in found:
        yield seq, step, decode_fact(bytes(body), blobs)
