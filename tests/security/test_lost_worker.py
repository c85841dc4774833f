"""Whose worker is killed in the middle of a command: nothing of what it had planted stays for a person (SPEC I7, J4).

A worker is a process of its own, and is killed as the machine would do it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loops import jobs
from loops.models import AuditEvent
from loops.runs.composition import command_records
from loops.tools.limits import Limits
from loops.tools.sandbox.capability import CONFINED, FULL
from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.tools.sandbox.workspace_guard import interrupted, protected_files
from loops.tools.workspace import Workspace
from tests import factories
from tests.security import test_afterwards
from tests.security.test_afterwards import AT_HOME, PLANTED, Person, outside_of
from tests.stack import wait_until

pytestmark = pytest.mark.spec("I7", "J4")
ROOT = Path(__file__).parents[2]
WORKER = """
import sys
from dataclasses import replace
from pathlib import Path
from loops.tools.sandbox.capability import SandboxLevel
from tests.controls import switch
from tests.unit.tools.harness import Desk
switch.as_told()
folder, level, records, line, run = sys.argv[1:]
desk = Desk(Path(folder), level=SandboxLevel(int(level), "of this test"), made=False, records=records)
desk.context = replace(desk.context, run_id=run)
sys.exit(f"it ended: {desk.shell(line, timeout_s=300)}")
"""
ENDS_IT = {"deep"}
"""It ends the command by its quota, so that there is none to lose."""
both_levels = pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
person = test_afterwards.person


@pytest.fixture
def records(person: Person, tmp_path: Path) -> str:
    """Those of the workers, and of the desk of ``person``."""
    folder = str(tmp_path / "state/commands")
    person.desk.service._folders = replace(person.desk.service._folders, records=folder)
    return folder


def begun(person: Person, records: str, line: str, run: str = "run-1") -> subprocess.Popen[bytes]:
    """A worker whose command has done ``line`` and goes on."""
    folder, level = str(person.folder.parent), str(person.desk.service._sandbox.level)
    line = f"{line}\ntouch started; sleep 300"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, folder, level, records, line, run], cwd=ROOT)
    try:
        wait_until(lambda: (person.folder / "started").exists() or worker.poll() is not None, "the command")
        assert worker.poll() is None
    except BaseException:
        worker.kill()
        worker.wait()
        raise
    return worker


def killed(person: Person, records: str, line: str, run: str = "run-1") -> None:
    """The same, and the worker is lost."""
    worker = begun(person, records, line, run)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    (person.folder / "started").unlink()


def left(records: str) -> list[Path]:
    return [*Path(records).iterdir()]


def planting(person: Person, *names: str, seconds: int = 2) -> str:
    """Each in a shell of its own: what goes wrong in one, or waits, is nothing to the others."""
    run = f"touch {person.outside}/"
    lines = (PLANTED[name].replace("{run}", run + name).replace("{outside}", str(person.outside)) for name in names)
    return "\n".join(f"timeout {seconds} bash -c {shlex.quote(AT_HOME + line)}" for line in lines)


@pytest.mark.parametrize(("person", "by"), [(FULL, "sweep"), (CONFINED, "command")], indirect=["person"])
def test_nothing_of_what_was_planted_runs_afterwards(person: Person, records: str, by: str) -> None:
    before = outside_of(person)
    killed(person, records, planting(person, *(PLANTED.keys() - ENDS_IT)))
    if by == "sweep":
        assert len([*interrupted.put_right_all(records)]) == 1
    else:
        result = person.desk.shell("echo done")
        assert result.content.endswith("[stdout]\ndone\n")
        assert "by a command whose worker was lost" in result.content
        assert left(records) == []
    person.uses("npm", "pip", "yarn")
    assert person.ran() == set()
    assert outside_of(person) == before


def test_control_without_a_record_it_runs(person: Person) -> None:
    killed(person, "", planting(person, "fsmonitor", "new-hook", seconds=60))
    person.desk.shell("true")
    person.uses()
    assert person.ran() == {"fsmonitor", "new-hook"}


@both_levels
def test_what_stood_there_is_back_and_the_next_result_tells_of_it(person: Person, records: str) -> None:
    """Also where the sweep came first, and a command that could not start was between."""
    (person.folder / "AGENTS.md").write_text("mine\n")
    (person.folder / "sub/AGENTS.md").write_text("mine\n")
    (person.folder / "sub/AGENTS.md").chmod(0o666)
    os.mkfifo(person.folder / "pipe of mine")
    (person.folder / "elsewhere").symlink_to(person.outside)
    git = (person.folder / ".git/config").read_bytes()
    killed(
        person,
        records,
        "mv .git sub/old; mv sub other; mkdir sub; echo theirs > sub/AGENTS.md; echo theirs > .envrc; echo work > made",
    )
    (late,) = interrupted.put_right_all(records)
    assert (late.run, late.workspace) == ("run-1", str(person.folder))
    assert [*interrupted.put_right_all(records)] == [], "once"
    assert (person.folder / ".git/config").read_bytes() == git
    assert [(person.folder / name).read_text() for name in ("AGENTS.md", "sub/AGENTS.md")] == ["mine\n"] * 2
    assert {path.name for path in person.folder.iterdir()} == (
        {"AGENTS.md", "sub", "other", "pipe of mine", "elsewhere", "made", ".git", "Makefile", "notes.md", "vendor"}
    )
    assert not person.desk.shell("true", directory="missing").ok
    result = person.desk.shell("cat made")
    assert result.content.endswith("[stdout]\nwork\n"), "the work of the agent stays"
    told = {one["path"]: one["why"] for one in result.data["taken"]}
    assert told[".envrc"] == "people's tools or agents would obey it (by a command whose worker was lost)"
    assert {"sub/AGENTS.md", ".git"} <= set(result.data["restored"])
    kept = {one.name: person.desk.blobs[one.sha256] for one in result.artifacts}
    assert kept["taken away: .envrc"] == kept["taken away: sub/AGENTS.md"] == b"theirs\n"
    assert person.desk.shell("true").data["taken"] == [], "once"


@both_levels
def test_ordinary_work_of_a_lost_worker_is_nothing_to_tell(person: Person, records: str) -> None:
    git = AT_HOME + "git checkout -qb work; echo more >> notes.md; git commit -qam two; mkdir deep; cp notes.md deep"
    killed(person, records, git)
    assert [*interrupted.put_right_all(records)] == []
    assert left(records) == []
    assert person.desk.shell("git log --oneline; cat deep/notes.md").content.count("more") == 1


def test_a_command_that_still_runs_is_left_alone(person: Person, records: str) -> None:
    worker = begun(person, records, "echo x > .envrc")
    try:
        assert len(left(records)) == 1
        assert [*interrupted.put_right_all(records)] == []
        assert (person.folder / ".envrc").exists()
    finally:
        worker.kill()
        worker.wait()


def test_nothing_is_on_disk_after_a_command_and_nobody_else_reads_it_while_one_runs(
    person: Person, records: str
) -> None:
    assert person.desk.shell("true").ok
    assert not person.desk.shell("exit 3").ok
    assert left(records) == []
    with SafeDirectory(str(person.folder)) as root:
        interrupted.Record(records, root).begin(protected_files.guard(root, Limits().protected), "run-1")
    (path,) = Path(records).iterdir()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_folder_of_before_that_has_the_same_name_is_another_one(person: Person, records: str) -> None:
    killed(person, records, "echo x > .envrc")
    person.folder.rename(person.folder.with_name("before"))
    person.folder.mkdir()
    (person.folder / ".envrc").write_text("mine\n")
    assert [*interrupted.put_right_all(records)] == []
    assert (person.folder / ".envrc").read_text() == "mine\n"


def test_one_record_that_is_spoilt_does_not_keep_the_others_from_being_read(person: Person, records: str) -> None:
    killed(person, records, "echo x > .envrc")
    for number, text in enumerate(("", "{", "[]", '{"path": "/nowhere"}', '{"path": 3}')):
        Path(records, f"0{number}.json").write_text(text)
    assert len([*interrupted.put_right_all(records)]) == 1
    assert not (person.folder / ".envrc").exists()


@pytest.mark.parametrize("text", ["", "{}", '{"guard": {"settings": []}}', "{head}\n{}", '{head}\n{"guard": [1]}'])
def test_a_record_that_cannot_be_read_is_told_once_and_commands_go_on(person: Person, records: str, text: str) -> None:
    killed(person, records, "true")
    (path,) = left(records)
    path.write_text(text.replace("{head}", path.read_text().splitlines()[0]))
    assert len([*interrupted.put_right_all(records)]) == text.count("{head}"), "else nobody knows which folder it is of"
    result = person.desk.shell("echo done")
    assert result.content.endswith("[stdout]\ndone\n")
    assert "not as it was: .: a worker was lost during a command" in result.content
    assert person.desk.shell("true").data["taken"] == []
    assert left(records) == []


def test_names_that_are_no_text_and_another_device_number(tmp_path: Path) -> None:
    """A device has another number after a start of the machine, and names are any bytes."""
    folder = tmp_path / "ws"
    odd = os.fsdecode(b"odd\xff")
    (folder / odd / ".git/objects").mkdir(parents=True)
    (folder / ".git/objects").mkdir(parents=True)
    os.mkfifo(folder / odd / "pipe")
    (folder / odd / "link").symlink_to(os.fsdecode(b"/nowhere\xff"))
    (folder / odd / "AGENTS.md").write_bytes(b"mine\xff")
    records = str(tmp_path / "records")
    with SafeDirectory(str(folder)) as root:
        interrupted.Record(records, root).begin(protected_files.guard(root, Limits().protected, mounts=False), "run-1")
        (path,) = Path(records).iterdir()
        head, body = path.read_text().splitlines()
        found = json.loads(body)
        for part in ("marks", "held"):
            found["guard"][part] = {name: [7, *mark[1:]] for name, mark in found["guard"][part].items()}
        path.write_text(f"{head}\n{json.dumps(found)}")
        (folder / ".git").rename(folder / odd / "moved")
        late = interrupted.Record(records, root).put_right()
    assert late.restored == (".git",)
    assert late.taken == ()
    assert {path.name for path in (folder / odd).iterdir()} == {".git", "pipe", "link", "AGENTS.md"}


@pytest.mark.django_db
def test_the_sweep_of_workers_writes_it_into_the_audit_log(person: Person) -> None:
    """Of the real folder of records, in which the workers of an installation write."""
    run = factories.run(factories.project())
    killed(person, command_records(), "echo x > .envrc", str(run.pk))
    jobs.sweep()
    event = AuditEvent.objects.get(kind="tool.planted")
    assert event.run_id == run.pk
    assert event.detail["workspace"] == str(person.folder)
    assert event.detail["taken"][0]["path"] == ".envrc"
    assert not (person.folder / ".envrc").exists()
    with Workspace(str(person.folder), Limits()) as workspace:
        interrupted.Record(command_records(), workspace.beneath).end(told=True)
