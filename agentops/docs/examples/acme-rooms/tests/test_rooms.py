"""The tools as a run calls them, without a server."""

from pathlib import Path

import pytest
from acme_rooms.tools import reserve_room, room_status

from agentops.sdk import Access, ToolHarness


@pytest.fixture(autouse=True)
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "rooms"
    folder.mkdir()
    monkeypatch.setenv("ACME_ROOMS", str(folder))
    return folder


def test_looking_is_allowed_and_reserving_is_asked_about(tmp_path: Path) -> None:
    assert ToolHarness(room_status, tmp_path).judge(room="blue").access is Access.ALLOW
    assert ToolHarness(reserve_room, tmp_path).judge(room="blue").access is Access.ASK


def test_arguments_are_checked_before_the_tool_runs(tmp_path: Path) -> None:
    rooms = ToolHarness(reserve_room, tmp_path)
    assert "'red' is not one of" in rooms.judge(room="red").reasons[0]
    assert "maximum of 8" in rooms.judge(room="blue", hours=9).reasons[0]


def test_the_same_call_reserves_once_and_is_undone(tmp_path: Path, service: Path) -> None:
    rooms = ToolHarness(reserve_room, tmp_path)
    assert rooms.run(room="blue", hours=2).content == "blue is yours for 2 hours"
    assert rooms.run_again().ok
    assert len(list(service.iterdir())) == 1
    assert not rooms.run(room="blue").ok, "another call, and the room is taken"
    assert rooms.run(room="green").ok
    assert rooms.undo().ok
    assert rooms.undo().ok, "an undoing may come twice"
    assert [path.name.split(".")[0] for path in service.iterdir()] == ["blue"]
