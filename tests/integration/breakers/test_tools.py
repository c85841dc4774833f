"""A tool that keeps failing for some runs is left alone by all others, and comes back for all (SPEC E5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from gates.gatekeeper import SqlGatekeeper
from loops.driver import Driver, Ports
from loops.engine.values import ToolResult
from loops.ids import new_key
from loops.models import Breaker, BreakerEvent, BreakerRule, ToolCallRecord
from loops.storage import journal
from loops.storage.breakers import PgBreakers
from loops.storage.provenance import PgArchive
from tests import fakes
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("E5")]

LOOK = ("look", {"at": "it"})
HUNG = ToolResult(ok=False, content="", error="look took too long", fault="timeout")
SEEN = ToolResult(ok=True, content="seen")
WRONG = ToolResult(ok=False, content="", error="exit code 1", exit_code=1)


def drive(answers: Any, look: Callable[[Any], ToolResult]) -> owned.Owned:
    """A new run with the breakers of the database, until it rests."""
    mine = owned.begun()
    loaded = journal.load(mine.run.pk)
    assert loaded is not None
    ports = Ports(
        mine.journal,
        fakes.Models(answers),
        fakes.Tools({"look": look, "peek": lambda arguments: "peeked"}),
        SqlGatekeeper(),
        PgArchive(),
        fakes.Feed(),
        fakes.Clock(),
        new_key,
        breakers=PgBreakers(mine.journal.connection, mine.run.pk, mine.journal.epoch),
    )
    asyncio.run(Driver(ports, loaded.state, loaded.transcript, slice_s=1e9).drive())
    mine.run.refresh_from_db()
    return mine


def calls(mine: owned.Owned) -> list[tuple[str, str]]:
    return list(ToolCallRecord.objects.filter(run=mine.run).order_by("call_id").values_list("tool", "state"))


def tries() -> list[Any]:
    return [fakes.says("I try.", ("look", {"at": number})) for number in range(2)] + [fakes.done()]


@pytest.mark.parametrize(("outcome", "opens"), [(HUNG, True), (WRONG, False)])
def test_faults_of_some_runs_close_the_tool_to_others(outcome: ToolResult, opens: bool) -> None:
    """The second row is the negative control: a task that goes wrong closes nothing."""
    BreakerRule.objects.create(kind="tool", name="*", threshold=4, cooldown_s=60)
    for _ in range(2):
        drive(tries(), lambda arguments: outcome)
    ran: list[Any] = []

    def look(arguments: Any) -> ToolResult:
        ran.append(arguments)
        return SEEN

    other = drive([fakes.says("", LOOK), fakes.says("", ("peek", {})), fakes.done()], look)
    assert other.run.status == "completed"
    assert bool(ran) is not opens
    assert calls(other)[0] == ("look", "ABORT" if opens else "COMPLETE")
    assert calls(other)[1] == ("peek", "COMPLETE")
    if opens:
        refused = ToolCallRecord.objects.get(run=other.run, tool="look")
        assert "keeps failing for everybody (timeout)" in refused.error
        assert refused.started_at is None, "refused before its INTENT"


def test_one_good_probe_brings_it_back() -> None:
    BreakerRule.objects.create(kind="tool", name="*", threshold=2, cooldown_s=60)
    drive(tries(), lambda arguments: HUNG)
    assert Breaker.objects.get(name="look").status == "open"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE loops_breaker SET open_until = clock_timestamp()")
    back = drive([fakes.says("", LOOK), fakes.done()], lambda arguments: SEEN)
    assert calls(back)[0] == ("look", "COMPLETE")
    assert Breaker.objects.get(name="look").status == "closed"
    happened = BreakerEvent.objects.order_by("id").values_list("what", "run")
    assert [what for what, _ in happened] == ["opened", "probed", "closed"]
    assert happened[2][1] == back.run.pk
