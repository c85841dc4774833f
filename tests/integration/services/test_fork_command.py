"""Forking from the command line (SPEC K3, T3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from loops.models import Fork
from loops.services import forks as services_forks
from tests import fakes
from tests.integration.services.test_commands import agentops
from tests.integration.storage import forks
from tests.integration.storage.forks import Ledger

pytestmark = pytest.mark.spec("K3", "T3")


@pytest.fixture
def run(world: Any, settings: Any, tmp_path: Path) -> Any:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    mine = forks.parent_in(tmp_path / "parent", world.submit().run)
    assert mine.drive([fakes.says("1", ("act", {})), fakes.done()], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    return mine.run


def test_a_fork_is_made_once_for_a_key(run: Any) -> None:
    words = (
        "--as",
        "operator",
        "fork",
        run.pk,
        "--step",
        1,
        "--message",
        "On",
        "--limit",
        "max_steps",
        3,
        "--key",
        "k",
    )
    first, again = agentops(*words), agentops(*words)
    fork = Fork.objects.get()
    assert first == again == str(fork.run_id)
    assert (fork.step, fork.message, fork.limits) == (1, "On", {"max_steps": 3})
    with pytest.raises(CommandError, match="already used"):
        agentops("--as", "operator", "fork", run.pk, "--step", 0, "--key", "k")


@pytest.mark.parametrize(
    ("who", "step", "message"),
    [
        ("reviewer", 1, "operator or admin"),
        ("outsider", 1, "no run"),
        ("operator", 9, "step: the run has no such point"),
    ],
)
def test_refusals_are_one_line(run: Any, who: str, step: int, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        agentops("--as", who, "fork", run.pk, "--step", step)
    assert not Fork.objects.exists()


@pytest.mark.spec("J6")
def test_the_result_of_a_fork_answers_for_no_task(world: Any, run: Any) -> None:
    """It may have been told more than the task says."""
    fork = forks.begin(services_forks.fork_run(actor=world.operator, run=run, step=1, message="Otherwise").run)
    assert fork.drive([fakes.done("otherwise")], Ledger().tools()) == "ended"
    assert world.submit(dedupe_content=True).run == run
