"""The confidence role asked over HTTP by the real adapter: its prompt, its price, its silence, a stop meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from loops.engine.measures.limits import usage
from loops.llm import prompts
from loops.models import Agent, ModelCall, ModelConfig, Run
from loops.runs.drive import drive
from loops.services import demo, steering
from loops.services.tasks import run_spec, submit_task
from loops.storage import journal, reader
from tests.integration.services.world import closing_connections
from tests.stack import PATIENCE_S, wait_until
from tests.wire.say import Raw, Say, Seen, Wire
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("G2")]
GOOD = '{"confidence": 0.9, "progress": 0.2, "reason": "it goes well"}'
Begin = Callable[[Callable[[Seen], Say | Raw]], tuple[Run, WireServer]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """``begin(handler)``: a scripted run whose confidence is judged by ``handler``, over the wire, as asked for."""
    servers = []

    def begun(handler: Callable[[Seen], Say | Raw]) -> tuple[Run, WireServer]:
        server = WireServer(handler).__enter__()
        servers.append(server)
        boss = get_user_model().objects.create_superuser("ana", password="x")
        project = demo.seed()
        agent = Agent.objects.get(project=project, name="Writes a file")
        agent.actor_model.pace = 0
        agent.actor_model.save()
        agent.confidence_model = ModelConfig.objects.create(
            name="judge",
            provider="anthropic",
            model_id="claude-test",
            base_url=server.url,
            timeout_s=600,
            input_usd_per_mtok=1,
            output_usd_per_mtok=5,
        )
        agent.save()
        project.access_rules.filter(operation="execute").update(access="allow")
        run = submit_task(
            actor=boss,
            project=project,
            agent=agent,
            workspace=project.workspaces.get(),
            goal="Write hello.txt.",
            criteria=[{"text": "there is a file", "command": "test -s hello.txt"}],
            final_review="never",
        ).run
        steering.check_confidence(actor=boss, run=run)
        return run, server

    yield begun
    for server in servers:
        server.__exit__(None, None, None)


def checked(run: Run) -> Any:
    return next(fact for fact in reader.history(run.pk) if type(fact).__name__ == "ConfidenceChecked")


@pytest.mark.spec("S3", "N4")
def test_it_is_asked_with_its_own_prompt_and_paid_by_the_run(begin: Begin) -> None:
    run, server = begin(lambda seen: Say(text=GOOD))
    assert run_spec(run)["confidence"] == {"every_steps": 5, "threshold": 0.5, "by_model": True}
    assert drive(run.pk, "test") == "ended"
    (asked,) = server.seen
    assert asked.body["system"][0]["text"] == prompts.load("confidence").fill(goal="Write hello.txt.")
    assert "tools" not in asked.body or not asked.body["tools"]
    assert "there is a file" in str(asked.body["messages"])
    assert not server.faults
    fact = checked(run)
    assert (fact.method, fact.raw_score, fact.provider) == ("model", 0.9, "anthropic")
    call = ModelCall.objects.get(run=run, role="confidence")
    assert call.cost_microusd == call.input_tokens + 5 * call.output_tokens
    loaded = journal.load(run.pk)
    assert loaded is not None
    assert usage(loaded.state)["max_cost_usd"][0] >= call.cost_microusd > 0


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Raw.error(529, "overloaded_error"), "overloaded"),
        (Raw.error(401, "authentication_error"), "authentication"),
        (Say(text="I think it is fine."), "no JSON object"),
        (Say(text=GOOD, wire=Wire(events=2, then="reset")), "The model did not answer"),
    ],
    ids=["overloaded", "no key", "prose", "cut"],
)
def test_a_judge_that_fails_leaves_what_was_measured_and_blocks_nothing(
    begin: Begin, answer: Say | Raw, problem: str
) -> None:
    run, _ = begin(lambda seen: answer)
    assert drive(run.pk, "test") == "ended"
    run.refresh_from_db()
    assert run.status == "completed"
    fact = checked(run)
    assert (fact.method, fact.raw_score, fact.score) == ("measured", None, 1.0)
    assert problem in fact.problem


@pytest.mark.spec("K1")
def test_a_stop_does_not_wait_for_a_silent_judge(begin: Begin) -> None:
    run, server = begin(lambda seen: Say(text=GOOD, wire=Wire(events=1, then="stall")))
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(closing_connections(drive), run.pk, "test")
        wait_until(lambda: server.seen, "the request")
        steering.stop_run(actor=get_user_model().objects.get(), run=run)
        assert working.result(PATIENCE_S) == "ended"
    run.refresh_from_db()
    assert run.status == "interrupted"
    kinds = [type(fact).__name__ for fact in reader.history(run.pk)]
    assert "ConfidenceRequested" in kinds
    assert "ConfidenceChecked" not in kinds
