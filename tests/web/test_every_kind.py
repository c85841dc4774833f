"""No fact is silent: each kind has words beside the steps, or a row of the page that shows it."""

import dataclasses
import time
import types
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from django.utils.html import escape

from loops.engine import facts as f
from loops.engine.encoding import canonical
from loops.engine.state.lifecycle import Phase
from loops.engine.values import Json
from loops.management.run_follower import RunFollower
from loops.storage.encoding import encode_fact
from loops.web.notes import NOTED, note_of
from tests import factories as make

SHOWN_BY = {
    "RunStarted": "the head and the side of the page",
    "ModelAnswered": "the card of its step",
    "StepCompleted": "the card of its step",
    "CallJudged": "the row of its call",
    "ToolIntended": "the row of its call",
    "ToolCompleted": "the row of its call",
    "ToolRefused": "the row of its call",
    "GateOpened": "the card of its gate",
    "GateDecided": "the card of its gate",
    "ChecksStarted": "the status of the run",
    "CheckAsked": "the card of its gate",
    "CommandCleared": "the card of its gate",
    "BackoffEnded": "the note of the wait, which names its end",
    "ModelAwaitEnded": "the note of the wait, which names its end",
    "TurnTaken": "the note of the wait, and the request that follows",
    "ConfidenceRequested": "the note of the check, which follows at once",
    "ClassificationRequested": "the note of the failure, which names the model",
    "ClassificationGiven": "the note of the failure, which names the answer",
    "CompensationIntended": "the note of what was undone",
    "UndoLearnt": "the Rollback view",
}
SILENT = {"SummaryRequested": "the note of what was left out follows"}
PARTS: dict[str, Any] = {"PhaseEntered": {"phase": Phase.VERIFY}, "RunEnded": {"amends": 0}}
"""What makes a fact of a kind one that has words: most changes of phase every run passes at once."""
NOW = time.time_ns() // 1000


def without_words(kinds: set[str]) -> set[str]:
    return kinds - set(NOTED) - set(SHOWN_BY)


@pytest.mark.spec("R1")
def test_every_kind_of_fact_has_words_or_a_row() -> None:
    assert without_words(set(f.KINDS)) == set()
    assert set(NOTED) | set(SHOWN_BY) == set(f.KINDS), "no words for kinds that are gone"
    assert without_words({*f.KINDS, "SomethingNew"}) == {"SomethingNew"}


@pytest.mark.spec("R1", "S4")
def test_every_kind_of_fact_is_rendered_where_facts_are_shown(house: Any) -> None:
    make.step(house.run, 1)
    stored = [make.fact(house.run, one_of(name), step=1) for name in f.KINDS]
    client = house.client("viewer")

    listed = client.get(f"/api/v1/runs/{house.run.pk}/facts/").json()["results"]
    assert {fact["kind"] for fact in listed} == set(f.KINDS)

    raw = client.get(f"/runs/{house.run.pk}/raw/").content.decode()
    assert [name for name in f.KINDS if f"<strong>{name}</strong>" not in raw] == []

    page = client.get(f"/runs/{house.run.pk}/").content.decode()
    terminal: list[str] = []
    RunFollower(house.run, house.viewer, types.SimpleNamespace(write=terminal.append), as_json=False).print_news()
    printed = {int(line.split()[1]): line for line in terminal}
    for fact in stored:
        if fact.kind in NOTED:
            note = note_of(fact.seq, fact.kind, fact.at, fact.body)
            assert (note is None) is (fact.kind in SILENT), fact.kind
            assert note is None or (note.title and escape(note.title) in page), fact.kind
            assert note is None or " ".join(note.title.split())[:60] in printed[fact.seq], fact.kind


@pytest.mark.spec("R1")
@pytest.mark.parametrize("name", sorted(NOTED))
def test_words_survive_texts_that_were_moved_out(name: str) -> None:
    """A long part of a fact lies in a blob; the note then says how long it is, and never fails."""
    body = canonical.decode(encode_fact(one_of(name), b"").body)
    moved = body | {field: {"#blob": "0" * 64, "#size": 9000} for field in f.KINDS[name].HEAVY}
    note = note_of(1, name, datetime.now(UTC), canonical.encode(moved))
    assert note is None or "#blob" not in note.title + note.text


def one_of(name: str) -> f.Fact:
    return dataclasses.replace(specimen(f.KINDS[name]), **PARTS.get(name, {}))


def specimen(hint: Any) -> Any:
    """A value of an annotation with every part filled in."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Json or hint is str:
        return "words"
    if isinstance(hint, type) and issubclass(hint, bool | int | float):
        return hint(NOW)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{field.name: specimen(hints[field.name]) for field in dataclasses.fields(hint)})
    if origin in (tuple, frozenset):
        return origin((specimen(args[0]),))
    if origin in (Union, types.UnionType):
        return specimen(args[0])
    return {"words": {"words": "words"}}
