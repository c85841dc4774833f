"""A run tries the commands of its criteria, and its worker dies, or a person wants it to stop. Real workers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loops.models import Run
from loops.services import steering
from loops.storage import chain
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import UNHURRIED, Crew, facts, owner, sweeping
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
BEGUN = "begun.txt"
WAIT, GO = "wait\n", "go\n"
SLOW = f"echo begun >> {BEGUN}; grep -q go t* || sleep 300"
"""It does not end by itself while nobody says so in the folder. What is new there is in no checkout, and what a command
names is there as it was."""


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        yield crew


def submitted(crew: Crew) -> Run:
    return crew.submit(files={"told": WAIT}, criteria=[{"text": "it works", "command": SLOW}])


def has_begun(crew: Crew, run: Run, times: int = 1) -> bool:
    place = crew.file(run, BEGUN)
    return bool(run.workspace_path) and place.exists() and place.read_text() == "begun\n" * times


@pytest.mark.spec("J2", "J4")
def test_a_worker_that_dies_at_it_is_followed_by_one_that_begins_it_again(crew: Crew) -> None:
    first, run = crew.start("first"), submitted(crew)
    wait_until(lambda: has_begun(crew, run), "the command")
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert (facts(run, "CriteriaTried"), facts(run, "ModelRequested")) == ([], [])
    crew.file(run, "told").write_text(GO)
    second = crew.start("second")
    sweeping(lambda: owner(run) in (0, second.pid) and run.completed_at is not None, "the end")
    assert run.end_reason == "criteria_met", plant.told(run)
    assert (len(facts(run, "RunTakenOver")), len(facts(run, "CriteriaTried"))) == (1, 1)
    assert len(facts(run, "ChecksStarted")) == 3, "twice before the first request, once for the result"
    assert has_begun(crew, run, times=2), "the result is measured in a checkout"
    assert chain.verify(run.pk).ok


@pytest.mark.spec("K1", "K2")
def test_a_pause_and_a_stop_end_the_command(crew: Crew) -> None:
    crew.start("one", **UNHURRIED)
    run = submitted(crew)
    wait_until(lambda: has_begun(crew, run), "the command")
    steering.pause_run(actor=crew.boss, run=run)
    wait_until(lambda: owner(run) == 0 and run.status == "paused", "the pause")
    steering.resume_run(actor=crew.boss, run=run)
    wait_until(lambda: has_begun(crew, run, times=2), "the command again")
    steering.stop_run(actor=crew.boss, run=run)
    plant.wait_for_runs([run.pk])
    run.refresh_from_db()
    assert run.end_reason == "operator_stop"
    assert (facts(run, "CriteriaTried"), facts(run, "ModelRequested")) == ([], [])
