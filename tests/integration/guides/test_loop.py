"""The guide's own execution loop, and its tools in the long form, on a real worker (SPEC B1)."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine import facts as f
from loops.storage import reader
from tests.integration.guides.conftest import House, done, playing
from tests.wire.say import Say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("B1", "X9")]


def test_a_run_works_by_the_loop_of_a_package(packages: None, worker_with_packages: Any) -> None:
    look, pay = [(name, {"customer": "acme"}) for name in ("account_balance", "pay_invoice")]
    with playing(Say(text="First I look.", calls=[look]), Say(calls=[pay]), done()) as server:
        house = House(server)
        run = house.submit(loop="planner_first")
        gate = house.gate(run, "irreversible_action")
        assert (gate.tool, gate.risk) == ("pay_invoice", "high"), "what it does not declare is taken at its worst"
        house.say(gate, "reject", "not today")
        assert house.ended(run).status == "completed"
    facts = reader.history(run.pk)
    assert [fact.role.value for fact in facts if isinstance(fact, f.ModelRequested)] == ["planner", "actor", "actor"]
    assert [fact.tool for fact in facts if isinstance(fact, f.ToolIntended)] == ["account_balance"]
    (started,) = [fact for fact in facts if isinstance(fact, f.RunStarted)]
    assert "Your first answer is a plan" in started.system
