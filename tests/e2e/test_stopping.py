"""Stop, pause, resume and a message act at once in every state a run can be in, and leave no process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from loops.services import steering
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import UNHURRIED, Crew, facts
from tests.e2e.states_steered import NAPS, STATES, status, steer
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

HEARD_S = 40
"""Less than ``LASTS_S``: by itself nothing ends as soon as that. What people wait is measured in ``tests/bench``."""
TREES, AT_ONCE = 20, 5
TREE = (
    "trap '' TERM INT HUP; "
    "python3 -c 'import os,time; os.fork() or (os.setsid(), os.fork() or time.sleep(300)); time.sleep(300)' & "
    "setsid sh -c 'trap \"\" TERM; sleep 300 & sleep 300' & (sleep 300 & sleep 300) & echo up > up; sleep 300"
)


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        crew.start("only", size=30, **UNHURRIED, **NAPS)
        yield crew


@pytest.mark.spec("K1", "K2", "I8")
@pytest.mark.parametrize("state", STATES)
def test_people_are_heard_before_what_is_going_on_ends_by_itself(crew: Crew, state: str) -> None:
    run = steer(crew, state, lambda what, condition: wait_until(condition, f"{what} {state}", HEARD_S))
    assert facts(run, "RunEnded")[0]["report_kind"] == "HaltRecord"
    assert facts(run, "MessageReceived")


@pytest.mark.spec("I8", "K1")
@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_a_stop_ends_whole_trees_of_processes(crew: Crew) -> None:
    """Double forks, sessions of their own, signals ignored; many at once."""
    for _ in range(TREES // AT_ONCE):
        runs = [crew.submit({"calls": [["run_command", {"command": TREE}]]}) for _ in range(AT_ONCE)]
        wait_until(lambda runs=runs: all(crew.file(run, "up").exists() for run in runs), "the trees")
        wait_until(lambda: len(below(crew)) >= 8 * AT_ONCE, "the processes")
        trees = below(crew)
        for run in runs:
            steering.stop_run(actor=crew.boss, run=run)
            wait_until(lambda run=run: status(run) == "interrupted", "the stop")
        assert not [one for one in trees if alive(one)], "once the runs have ended"


def below(crew: Crew) -> list[psutil.Process]:
    return psutil.Process(crew.workers["only"].pid).children(recursive=True)


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
