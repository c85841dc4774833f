"""What a run waits for is a kind and a name beside the words, whichever version of a worker says it (SPEC A2)."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

import pytest
from django.db import connection

from loops.engine import facts as f
from loops.engine.values import ModelRole
from loops.models import Run
from loops.storage import journal
from loops.storage.status import status
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("A2", "J2")]

OF_BEFORE = journal._APPEND.replace("%s, %s, %s, %s::int, %s, %s, %s::jsonb", "%s, %s::int, %s, %s, %s::jsonb")
KIND_AND_NAME = slice(6, 8)
"""Where they stand among the columns of the head: workers of an earlier version did not send them."""
LATER = int(time.time() * 1e6) + 60_000_000
OLD_WORDS = partial(re.sub, "^its workspace: ", "its folder: ")
WAITS = {
    "gate": ([f.GateOpened(gate="g", kind="tool_approval", title="Run it")], "tool_approval"),
    "folder": ([f.WorkspaceAwaited(why="it is not there")], ""),
    "turn": ([f.TurnAwaited(role=ModelRole.ACTOR, model="own: 7B", before=2)], "own: 7B"),
    "model": ([f.ModelAwaited(role=ModelRole.ACTOR, model="a: next", until=LATER, reason="timeout")], "a: next"),
    "": ([f.MessageReceived(text="hello", by="ada")], ""),
}


@pytest.fixture(params=["now", "before"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A worker of today, or one that is still at work while the installation is upgraded."""
    if request.param == "before":
        columns = journal._head_columns

        def of_before(state: Any) -> tuple[Any, ...]:
            found = [*columns(state)]
            del found[KIND_AND_NAME]
            return tuple(OLD_WORDS(value) if isinstance(value, str) else value for value in found)

        monkeypatch.setattr(journal, "_APPEND", OF_BEFORE)
        monkeypatch.setattr(journal, "_head_columns", of_before)
    return str(request.param)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("kind", WAITS)
def test_the_row_says_for_what_and_for_which(kind: str) -> None:
    facts, name = WAITS[kind]
    mine = owned.begun()
    mine.append(*facts)
    row = Run.objects.get(pk=mine.run.pk)
    assert (row.waiting_kind, row.waiting_name) == (kind, name)
    assert mine.state is not None
    words = status(mine.state)[1].words
    assert row.waiting_on in {words, OLD_WORDS(words)}


def test_rows_of_before_are_filled() -> None:
    """The migration reads words once, and never again."""
    with connection.cursor() as cursor:
        for shown, words, kind, name in (
            ("waiting", "message", "message", ""),
            ("paused", "question", "gate", "question"),
            ("executing_tool", "run_command", "", ""),
            ("waiting_for_resource", "turn at own: it is next", "turn", "own"),
            ("waiting_for_resource", "a worker of a newer version", "newer_worker", ""),
            ("waiting_for_resource", f"model {'m' * 194}", "model", ""),
            ("failed", "the journal cannot be read: broken at 7", "", ""),
        ):
            cursor.execute("SELECT * FROM journal_waiting(%s, %s)", [shown, words])
            assert cursor.fetchone() == (kind, name), words
