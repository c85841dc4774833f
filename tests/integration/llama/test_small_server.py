"""Real runs against a real llama.cpp server of the commonest kind: one slot, a window of 4,096 (SPEC E6, U1)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from loops.models import Agent, Fact, ModelConfig, Run
from loops.services.models import window_of
from loops.services.tasks import submit_task
from loops.storage import journal, reader
from tests.factories import create_project
from tests.llama.server import Server, serving
from tests.stack import wait_until

pytestmark = [pytest.mark.spec("E6", "U1")]


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("slow"), layers=24) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("llama")) as running:
        yield running


def model(server: Server, **fields: Any) -> ModelConfig:
    return ModelConfig.objects.create(name="own", provider="openai", model_id="tiny", base_url=server.url, **fields)


def submit(chosen: ModelConfig, count: int, **task: Any) -> list[Run]:
    boss = get_user_model().objects.create_superuser("ana", password="x")
    project = create_project(actor=boss, name="P", slug="p")
    agent = Agent.objects.create(project=project, name="Agent", actor_model=chosen)
    given = {"final_review": "never", "workspace": None, "complexity": "simple", **task}
    goal = given.pop("goal", "Write it")
    return [
        submit_task(actor=boss, project=project, agent=agent, goal=f"{goal} ({number})", **given).run
        for number in range(count)
    ]


def facts(run: Run, kind: str) -> list[Any]:
    return [fact for fact in reader.history(run.pk) if type(fact).__name__ == kind]


def rest(runs: list[Run]) -> Counter[str]:
    """Wait until nothing moves any more; how they stand."""
    pks = [run.pk for run in runs]

    def still() -> bool:
        moving = Run.objects.filter(pk__in=pks).exclude(status__in=["waiting", "completed", "failed", "interrupted"])
        return not moving.exists()

    wait_until(still, "the end of all runs", 600)
    found = Run.objects.filter(pk__in=pks).values_list("status", "end_reason", "waiting_on")
    return Counter(f"{status} {reason or on}" for status, reason, on in found)


def working_seconds(run: Run) -> float:
    loaded = journal.load(run.pk)
    assert loaded is not None
    return loaded.state.active_us / 1e6


def count(runs: list[Run], kind: str) -> int:
    return Fact.objects.filter(run__in=runs, kind=kind).count()


def test_ten_runs_at_once_all_end_by_their_own_bounds(live_worker: Any, slow: Server, capsys: Any) -> None:
    """Each request is begun once and answered, and who waits for a turn spends nothing."""
    began, counts = time.monotonic(), (slow.begun(), slow.abandoned())
    runs = submit(model(slow), 10, limits={"max_steps": 2})
    ends = rest(runs)
    seconds = time.monotonic() - began
    asked = count(runs, "ModelRequested")
    wait_until(lambda: slow.begun() - counts[0] >= asked, "the server's log of the last request")
    begun, abandoned = slow.begun() - counts[0], slow.abandoned() - counts[1]
    answered, failed = (count(runs, f"Model{kind}") for kind in ("Answered", "Failed"))
    spent = sum(working_seconds(run) for run in runs)
    with capsys.disabled():
        print(
            f"\n{dict(ends)} in {seconds:.0f} s: {asked} requests, {begun} begun by the server, {abandoned} abandoned, "
            f"{answered} answered, {failed} failed; waited {count(runs, 'TurnAwaited')} times for a turn; "
            f"they worked {spent:.1f} s in all"
        )
    assert ends == {"waiting limit_reached": 10}
    assert (begun, answered, failed, abandoned) == (asked, asked, 0, 0)
    assert spent < 3 * seconds, "waiting for a turn is no work: ten runs from the first to the last, or half of it each"


def test_a_run_that_waits_says_for_what(live_worker: Any, slow: Server) -> None:
    runs = submit(model(slow), 4, limits={"max_steps": 2})
    waits = Run.objects.filter(pk__in=[run.pk for run in runs], waiting_on__regex="^turn at own: [1-3] before it$")
    wait_until(lambda: waits.exists() or count(runs, "TurnAwaited"), "a run that waits for its turn")
    rest(runs)
    (first, *_) = [fact for run in runs for fact in facts(run, "TurnAwaited")]
    assert (first.model, first.before in (1, 2, 3)) == ("own", True)


def test_the_window_is_asked_before_the_first_request(live_worker: Any, server: Server) -> None:
    chosen = model(server)
    (run,) = submit(chosen, 1)
    rest([run])
    chosen.refresh_from_db()
    assert (chosen.window_found, chosen.window_source) == (4096, "asked")
    assert facts(run, "ModelRequested")[0].window == 4096
    failed = [one.code for one in facts(run, "ModelFailed")]
    assert set(failed) <= {"connection_cut"}, "an idle line may be hung up on; nothing was too long"


def test_a_window_that_an_error_names_is_learnt_and_the_run_goes_on(live_worker: Any, server: Server) -> None:
    """The admin stated too much: the server refuses, names 4,096, and the same run goes on with it."""
    chosen = model(server, context_window=200_000)
    (run,) = submit(chosen, 1, goal="Write down what is here. " + "The system checks what the agent reads. " * 60)
    rest([run])
    failed = facts(run, "ModelFailed")
    assert (failed[0].window, failed[0].code) == (4096, "prompt_too_long")
    assert len(failed) < len(facts(run, "ModelAnswered")), "it goes on after each"
    assert len(facts(run, "PromptShortened")) == 1
    run.refresh_from_db()
    assert (run.status, run.waiting_on) == ("waiting", "loop_detected"), "it ends by what it does, not by the window"
    chosen.refresh_from_db()
    assert (chosen.window_found, chosen.window_source, window_of(chosen)) == (4096, "learnt", 4096)
