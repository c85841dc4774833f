"""Giving a state folder away: all that is ours, once, and nothing that it only points to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from agentops.embedded.root import handover

pytestmark = [
    pytest.mark.spec("X1"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
]

SOMEBODY = 62111
AN_AGENT = handover.SANDBOXED


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """As an earlier version left it, started by root."""
    folder = tmp_path / "state"
    for name in ("postgres/base", "log", "run", "workspaces/one/src"):
        (folder / name).mkdir(parents=True)
    for name in ("secret", "postgres/PG_VERSION", "log/web.log", "workspaces/one/src/code.py"):
        (folder / name).write_text(name)
    (folder / "secret").chmod(0o600)
    for path in (folder / "workspaces/one", *(folder / "workspaces/one").rglob("*")):
        os.chown(path, AN_AGENT, AN_AGENT)
    return folder


def owners(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_uid for path in folder.rglob("*")}


def give(state: Path) -> None:
    handover.give(state, SOMEBODY, SOMEBODY)


def test_everything_of_it_is_theirs_with_the_rights_it_had(state: Path) -> None:
    give(state)
    assert set(owners(state).values()) == {SOMEBODY} == {state.stat().st_uid}
    assert (state / "secret").stat().st_mode & 0o777 == 0o600


def test_a_folder_is_made_where_none_is(tmp_path: Path) -> None:
    give(tmp_path / "new/state")
    assert (tmp_path / "new/state").stat().st_uid == SOMEBODY
    assert (tmp_path / "new").stat().st_uid == 0


@pytest.mark.spec("I7")
def test_what_an_agent_only_points_to_stays_whose_it_is(state: Path, tmp_path: Path) -> None:
    outside = tmp_path / "shadow"
    outside.write_text("root's")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("root's")
    (state / "workspaces/one/link").symlink_to(outside)
    (state / "workspaces/one/way").symlink_to(tmp_path / "folder")
    (state / "demo").symlink_to(tmp_path / "folder")
    (state / "workspaces/one/name").hardlink_to(outside)
    give(state)
    assert outside.stat().st_uid == (tmp_path / "folder").stat().st_uid == (tmp_path / "folder/file").stat().st_uid == 0
    assert (state / "workspaces/one/link").lstat().st_uid == (state / "demo").lstat().st_uid == SOMEBODY


def test_what_root_left_later_is_given_too(state: Path) -> None:
    give(state)
    (state / "log/beat.log").write_text("")
    (state / "backups").mkdir()
    give(state)
    assert set(owners(state).values()) == {SOMEBODY}


def test_a_start_that_was_ended_in_the_middle_is_taken_up(state: Path) -> None:
    for name in ("secret", "log", "log/web.log", "postgres"):
        os.chown(state / name, SOMEBODY, SOMEBODY)
    give(state)
    assert set(owners(state).values()) == {SOMEBODY} == {state.stat().st_uid}


def test_nothing_changes_under_whoever_runs_on_it(state: Path) -> None:
    before = owners(state) | {"up.lock": 0}
    with (state / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(handover.InUse):
            give(state)
    assert owners(state) == before
    assert state.stat().st_uid == 0


def test_a_folder_with_things_of_others_is_left_alone(state: Path) -> None:
    (state / "letters").mkdir()
    before = owners(state)
    with pytest.raises(handover.NotOurs, match=r"holds other things as well \(letters\)"):
        give(state)
    assert owners(state) == before
    assert state.stat().st_uid == 0


def test_a_link_in_the_place_of_the_folder_is_not_followed(state: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(state)
    with pytest.raises(handover.NotOurs, match="is a link"):
        give(tmp_path / "link")
    assert state.stat().st_uid == 0
