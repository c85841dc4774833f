"""The guide's own agent goes on in another worker after kill -9, as any run does (SPEC B6, J4).

A file of its own: no other worker may be there to take the run.
"""

from __future__ import annotations

import threading

import pytest

from agentops.celery import app
from loops.engine import facts as f
from loops.storage.dispatch import ring_now
from tests import stack
from tests.integration.guides.conftest import House, done
from tests.integration.guides.test_agent import LOOK, facts
from tests.integration.storage import owned
from tests.wire.say import Say, Seen
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("B6", "X9")]


@pytest.mark.spec("B6", "J1", "J4")
def test_it_goes_on_in_another_worker_after_kill_nine(packages: None, surroundings: dict[str, str]) -> None:
    turns = [LOOK, Say(calls=[("write_file", {"path": "a.txt", "content": "a"})]), LOOK, done("kept")]
    asked, killed = threading.Event(), threading.Event()

    def play(seen: Seen) -> Say:
        if seen.turn == 2 and not killed.is_set():
            asked.set()
            killed.wait(stack.PATIENCE_S)
        return turns[seen.turn]

    app.control.purge()
    with WireServer(play) as server:
        house = House(server)
        with stack.worker(**surroundings) as first:
            run = house.submit(program="careful")
            assert asked.wait(stack.PATIENCE_S)
            first.kill()
            first.wait()
        killed.set()
        owned.lapse(run)
        with stack.worker(**surroundings):
            ring_now(run.pk)
            ended = house.ended(run)
    assert ended.status == "completed"
    assert facts(run, f.RunStarted)[0].spec.agent.program == "careful"
    assert len(facts(run, f.RunTakenOver)) == 1
    tools = [fact.tool for fact in facts(run, f.ToolIntended)]
    assert tools == ["list_files", "write_file", "list_files"], "no call twice"
    roles = [fact.role.value for fact in facts(run, f.ModelRequested)]
    assert roles == ["planner", "actor", "planner", "planner", "actor"], "the third is asked for again"
    assert len(facts(run, f.ModelAnswered)) == 4
