"""A worker is told to end while another one is idle: nothing is stolen, nothing is begun twice, nobody waits."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loops.models import Run
from loops.runs import worker
from loops.storage import chain, inbox
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import UNHURRIED, Crew, facts, owner
from tests.e2e.states_steered import LASTS_S, NAPS
from tests.stack import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J3", "J4")]

SLOW_WORDS = {"words": "word " * 150, "pace": 0.1, "calls": [["write_file", {"path": "a", "content": "a"}]]}
COMMAND = {"calls": [["run_command", {"command": "until test -e go; do sleep 0.1; done; echo done >> ledger"}]]}
ENDLESS = {"calls": [["run_command", {"command": "echo begun >> ledger; sleep 600"}]]}


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        yield crew


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_runs_are_handed_over_at_once(crew: Crew, pool: str) -> None:
    old = crew.start("old", pool, size=3, **UNHURRIED, **NAPS)
    runs = [crew.submit(COMMAND, COMMAND), crew.submit(SLOW_WORDS), crew.submit({"error": LASTS_S})]
    command, words, backoff = runs
    wait_until(lambda: crew.file(command, "ledger").parent.exists() and crews.latest(command) == "ToolIntended", "it")
    wait_until(lambda: crews.latest(words) == "ModelRequested" and crews.latest(backoff) == "BackoffStarted", "them")
    new = crew.start("new", **UNHURRIED, **NAPS)
    old.send_signal(signal.SIGTERM)
    wait_until(lambda: b"shutdown" in crew.log("old").read_bytes(), "the signal")
    crew.file(command, "go").touch()
    owners = watch(runs, lambda: old.poll() is not None)
    assert old.returncode == 0, "by itself, before the end of its grace"
    assert new.poll() is None
    assert [len(set(seen)) <= 2 for seen in owners.values()] == [True] * 3
    inbox.put(backoff.pk, "stop")
    plant.wait_for_runs([run.pk for run in runs])
    for run, status in zip(runs, ("completed", "completed", "interrupted"), strict=True):
        run.refresh_from_db()
        assert run.status == status, plant.told(run)
        assert not facts(run, "RunTakenOver"), "it was given back, not lost"
        assert chain.verify(run.pk).ok
    assert crew.file(command, "ledger").read_text() == "done\n" * 2
    assert [fact.get("attempt", 1) for fact in facts(command, "ToolIntended")] == [1, 1]


def watch(runs: list[Run], until: Any) -> dict[Any, list[int]]:
    """Who owned the runs, in order, until the condition held."""
    seen: dict[Any, list[int]] = {run.pk: [] for run in runs}
    deadline = time.monotonic() + 110  # less than the grace
    while not until():
        assert time.monotonic() < deadline
        for run in runs:
            if (now := owner(run)) and now not in seen[run.pk][-1:]:
                seen[run.pk].append(now)
        time.sleep(0.05)
    return seen


def test_a_second_signal_ends_it_now_and_the_lease_runs_out(crew: Crew) -> None:
    old = crew.start("old", AGENTOPS_CREW_GRACE_S="300")
    run = crew.submit(ENDLESS)
    wait_until(lambda: crew.file(run, "ledger").exists(), "the command")
    crew.start("new")
    old.send_signal(signal.SIGTERM)
    wait_until(lambda: b"shutdown" in crew.log("old").read_bytes(), "the first signal")
    assert old.poll() is None
    old.send_signal(signal.SIGTERM)
    assert old.wait(60) == 1, "long before the end of its grace"
    crews.sweeping(lambda: crews.latest(run) == "GateOpened", "the next owner")
    assert [fact["lost_is_dead"] for fact in facts(run, "RunTakenOver")] == [True]
    assert crew.file(run, "ledger").read_text() == "begun\n", "a command that was cut short is not begun again blindly"


def test_the_end_of_the_grace_ends_what_does_not_end(crew: Crew) -> None:
    """A command that may not be begun again is never cut short by the worker itself: the lease runs out."""
    old = crew.start("old", AGENTOPS_CREW_LEASE_S=UNHURRIED["AGENTOPS_CREW_LEASE_S"])
    run = crew.submit(ENDLESS)
    wait_until(lambda: crew.file(run, "ledger").exists(), "the command")
    began = time.monotonic()
    old.send_signal(signal.SIGTERM)
    assert old.wait(60) == 1
    assert time.monotonic() - began >= worker.GRACE_S
    assert crews.latest(run) == "ToolIntended"
