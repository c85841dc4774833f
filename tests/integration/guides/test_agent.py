"""The guide's own agent leads runs in real workers: gates and limits are those of any run (SPEC B6)."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine import facts as f
from loops.models import Run
from loops.services.tasks import InvalidTask
from loops.storage import reader
from tests.integration.guides.conftest import House, playing, until
from tests.wire.say import Say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("B6", "X9")]
LOOK = Say(calls=[("list_files", {})])


def facts(run: Run, kind: type[f.Fact]) -> list[Any]:
    return [fact for fact in reader.history(run.pk) if isinstance(fact, kind)]


@pytest.mark.spec("B6", "Q1", "D1")
def test_its_run_waits_for_people_and_ends_within_its_limits(packages: None, worker_with_packages: Any) -> None:
    reserve = Say(calls=[("reserve_room", {"room": "green"})])
    with playing(reserve, LOOK) as server:
        house = House(server)
        run = house.submit(program="careful", limits={"max_steps": 3})
        house.say(house.gate(run, "tool_approval"), "reject", "not today")
        house.say(house.gate(run, "limit_reached"), "reject", "that was enough")
        ended = until(lambda: Run.objects.filter(pk=run.pk, status="failed").first(), run, "the end")
    assert ended.end_reason == "max_steps"
    assert "reserve_room" not in [fact.tool for fact in facts(run, f.ToolIntended)]


def test_a_task_for_one_that_no_package_brings_is_refused(packages: None) -> None:
    with pytest.raises(InvalidTask, match="no package brings the agent 'gone'; there are: careful"):
        House(None).submit(program="gone")
