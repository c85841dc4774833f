"""The guide's own tools: in their own tests, and in a run on a real worker that asks, runs and undoes (SPEC I2, O1)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from loops.models import ToolCallRecord
from loops.services import steering
from tests.integration.guides.conftest import EXAMPLES, House, playing, until
from tests.wire.say import Say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I2", "X9")]


def test_the_tests_of_the_package_pass_without_a_server(surroundings: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))}
    ran = subprocess.run(
        [*command, f"--rootdir={tmp_path}", EXAMPLES / "acme-rooms/tests"],
        cwd=tmp_path,
        env={**kept, **surroundings, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_run_asks_reserves_and_takes_it_back(packages: None, worker_with_packages: Any, rooms: Path) -> None:
    look, reserve = ("room_status", {"room": "blue"}), ("reserve_room", {"room": "blue", "hours": 2})
    asks = Say(calls=[("ask_question", {"question": "Which floor?"})])
    with playing(Say(calls=[look]), Say(calls=[reserve]), asks) as server:
        house = House(server)
        run = house.submit()
        gate = house.gate(run, "tool_approval")
        assert (gate.tool, gate.title) == ("reserve_room", "Reserve the blue room")
        assert not list(rooms.iterdir()), "nothing happens before the decision"
        assert list(run.tool_calls.filter(ok=True).values_list("tool", flat=True)) == ["room_status"]
        house.say(gate, "approve")
        house.gate(run, "question")
        (reserved,) = rooms.iterdir()
        assert reserved.read_text() == "2 hours"
        steering.stop_run(actor=house.boss, run=run)
        house.say(house.gate(run, "rollback_choice"), "roll_back")
        until(lambda: not list(rooms.iterdir()), run, "the undoing")
        house.ended(run)
    assert not server.faults
    offered = {tool["function"]["name"] for tool in server.seen[0].body["tools"]}
    assert {name for name in offered if "re" in name and "room" in name} == {"reserve_room"}, "no undoing for models"
    assert set(ToolCallRecord.objects.filter(run=run, ok=True).values_list("tool", flat=True)) >= {"reserve_room"}
    assert not Gate.objects.filter(run=run, status="open").exists()
