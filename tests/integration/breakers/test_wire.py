"""Providers that fail in every way, under real runs: nothing of a cut answer is done, nothing said is lost."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from loops.models import Breaker, BreakerRule, Run, ToolCallRecord
from loops.runs.drive import drive
from loops.services.steering import retry_run
from tests.integration.breakers.wire_runs import drive_on, facts, model, submit
from tests.wire.say import Raw, Say, Seen, Wire
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("E6")]

PROVIDERS = ["anthropic", "openai"]
WRITE = ("write_file", {"path": "note.txt", "content": "once\n"})
DONE = ("task_completion", {"result": "written"})
OVERLOADED = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
OVERLOADED_OPENAI = 'data: {"error": {"type": "server_error", "code": "server_is_overloaded", "message": "Sorry"}}\n\n'
CUTS = {
    "reset": Wire(events=-3, then="reset"),
    "cut": Wire(events=-3, then="cut"),
    "silence": Wire(events=-3, then="stall"),
    "end": Wire(events=-3, then="end"),
}


def turn(seen: Seen) -> Say:
    """Write a file, then say so."""
    return Say(thinking="I think.", text="I write.", calls=[WRITE if seen.turn == 0 else DONE])


def without_waiting(threshold: int = 1, cooldown_s: int = 900) -> None:
    BreakerRule.objects.create(kind="model", name="*", threshold=threshold, cooldown_s=cooldown_s)


def said_in(seen: Seen) -> str:
    return seen.said


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("how", [*CUTS, "overload"])
def test_nothing_of_an_answer_that_broke_off_is_done_and_it_is_asked_for_again(provider: str, how: str) -> None:
    def answer(seen: Seen) -> Say:
        if seen.number != 0:
            written = how != "end" or len(seen.call_ids) > 1
            return turn(seen) if written else Say(calls=[WRITE])
        whole = Say(text="I write.", calls=[WRITE])
        if how == "overload":
            event = OVERLOADED if seen.form == "anthropic" else OVERLOADED_OPENAI
            return Say(text="I write.", calls=[WRITE], wire=Wire(insert={7: event}))
        events = 7 if seen.form == "anthropic" else 5
        return Say(text=whole.text, calls=whole.calls, wire=Wire(events=events, then=CUTS[how].then))

    with WireServer(answer) as server:
        run = submit(model(server, provider=provider, timeout_s=20 if how == "silence" else 60))
        assert drive_on(run) == "ended"
    assert server.faults == []
    assert run.status == "completed"
    calls = list(ToolCallRecord.objects.filter(run=run, tool="write_file").order_by("call_id"))
    assert sum(call.state == "COMPLETE" and bool(call.ok) for call in calls) == 1
    assert (Path(run.workspace_path) / "note.txt").read_text() == "once\n"
    if how == "end":  # an early end is silent: the answer is kept, its last call is told to be cut, and not executed
        assert [call.state for call in calls] == ["ABORT", "COMPLETE"]
        return
    assert [call.state for call in calls] == ["COMPLETE"]
    failed = facts(run, "ModelFailed")
    assert len(failed) == 1
    first, again = server.seen[0], server.seen[1]
    assert first.body["messages"] == again.body["messages"], "the very same conversation"
    assert first.body["model"] == again.body["model"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_providers_wish_to_wait_is_honoured(provider: str) -> None:
    at: list[float] = []

    def answer(seen: Seen) -> Say | Raw:
        at.append(time.monotonic())
        return Raw.error(429, "rate_limit_error", "Slow down", retry_after="3") if seen.number == 0 else turn(seen)

    with WireServer(answer) as server:
        run = submit(model(server, provider=provider))
        assert drive_on(run) == "ended"
    assert run.status == "completed"
    assert at[1] - at[0] >= 3


@pytest.mark.parametrize(("first", "second"), [("anthropic", "openai"), ("openai", "anthropic"), ("anthropic",) * 2])
def test_the_conversation_stays_whole_when_another_provider_takes_over(first: str, second: str) -> None:
    without_waiting()

    def answer(seen: Seen) -> Say | Raw:
        down = seen.body["model"] == "main-1" and seen.turn == 1
        return Raw.error(529, "overloaded_error", "Overloaded") if down else turn(seen)

    with WireServer(answer) as server:
        spare = model(server, "spare", second, thinking="2000" if second == "anthropic" else "off")
        thinking = "2000" if first == "anthropic" else "off"
        run = submit(model(server, "main", first, fallback=spare, thinking=thinking))
        assert drive_on(run) == "ended"
    assert server.faults == [], "the second provider takes the conversation as it is sent"
    assert run.status == "completed"
    assert [seen.body["model"] for seen in server.seen] == ["main-1", "main-1", "spare-1"]
    last = said_in(server.seen[-1])
    assert "I write." in last
    assert "note.txt" in last
    assert "I think." not in last, "nobody gets another model's thoughts"
    asked = facts(run, "ModelRequested")
    assert [(fact.model, fact.fell_back_from) for fact in asked] == [("main", ""), ("main", ""), ("spare", "main")]
    assert asked[-1].because == "overloaded_error (HTTP 529)"
    assert [fact.provider for fact in facts(run, "ModelAnswered")] == [first, second]


def test_a_model_gets_its_own_thoughts_back() -> None:
    with WireServer(turn) as server:
        run = submit(model(server, thinking="2000"))
        drive_on(run)
    blocks = server.seen[1].body["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "I think.", "signature": "sig-0=="}
    assert server.seen[1].body["thinking"]["type"] == "enabled"


@pytest.mark.spec("E5", "J5")
def test_a_run_without_a_fallback_is_parked_and_goes_on_by_itself() -> None:
    without_waiting()
    down = True

    def answer(seen: Seen) -> Say | Raw:
        return Raw.error(529, "overloaded_error") if down else turn(seen)

    with WireServer(answer) as server:
        run = submit(model(server))
        assert drive(run.pk, "test") == "timer"
        run.refresh_from_db()
        assert (run.owner, run.lease_until, run.status) == ("", None, "waiting_for_resource")
        assert run.waiting_on.startswith("model main: next try at ")
        assert run.wake_at is not None
        assert drive(run.pk, "test") == "taken", "nobody can own it before its time"
        down, past = False, timezone.now() - timedelta(seconds=1)
        Breaker.objects.filter(name="main").update(open_until=past)
        Run.objects.filter(pk=run.pk).update(wake_at=past)
        assert drive_on(run) == "ended"
    assert run.status == "completed"
    assert run.waiting_on == ""
    assert Breaker.objects.get(name="main").status == "closed"
    assert [fact.probe for fact in facts(run, "ModelRequested")] == [False, True, False]


@pytest.mark.spec("E5")
def test_many_runs_of_one_model_ask_it_once_a_cooldown() -> None:
    without_waiting(threshold=2)
    with WireServer(lambda seen: Raw.error(529, "overloaded_error")) as server:
        chosen = model(server)
        first = submit(chosen)
        runs = [first, *(_another(first, number) for number in range(9))]
        whys = [drive_on(run, until=lambda why: True) for run in runs]
        assert len(server.seen) == 2
    assert whys == ["timer"] * 10
    assert {run.status for run in Run.objects.all()} == {"waiting_for_resource"}, "none of them failed"


def _another(run: Run, number: int) -> Run:
    from loops.services.tasks import submit_task

    boss = get_user_model().objects.get()
    return submit_task(actor=boss, project=run.project, agent=run.agent, workspace=None, goal=f"Another {number}").run


def test_try_again_works_when_the_whole_chain_is_used_up() -> None:
    with WireServer(
        lambda seen: Raw.error(401, "authentication_error", "invalid key") if down else turn(seen)
    ) as server:
        down = True
        spare = model(server, "spare", "openai")
        run = submit(model(server, fallback=spare))
        drive_on(run, until=lambda why: why.startswith(("ended", "gate")))
        assert (run.status, run.end_reason) == ("failed", "model_unavailable")
        assert [fact.model for fact in facts(run, "ModelRequested")] == ["main", "spare"]
        down = False
        retry_run(actor=get_user_model().objects.get(), run=run)
        assert drive_on(run) == "ended"
    assert run.status == "completed"
    assert run.total_steps == 2
    assert (Path(run.workspace_path) / "note.txt").read_text() == "once\n"


def test_what_a_run_did_before_the_outage_is_there_after_it(tmp_path: Any) -> None:
    without_waiting(cooldown_s=1)
    failures = iter([True, True, False])

    def answer(seen: Seen) -> Say | Raw:
        if seen.turn == 1 and next(failures, False):
            return Raw.error(503, "api_error")
        return turn(seen)

    with WireServer(answer) as server:
        run = submit(model(server))
        assert drive_on(run) == "ended"
    assert run.status == "completed"
    assert ToolCallRecord.objects.filter(run=run, tool="write_file").count() == 1
    assert server.seen[1].body["messages"] == server.seen[-1].body["messages"]
