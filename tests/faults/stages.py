"""What a worker may be at when it is killed, one row each: how it is ordered, when it is under way, how it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from loops.models import AccessRule, Delivery, Preflight, Run, Setup, Workspace
from loops.services import delivery, preflight, setups
from loops.services.tasks import submit_task
from loops.storage.dispatch import dispatch
from loops.workspaces import copies
from loops.workspaces.configured import WORKSPACES
from tests.faults import house
from tests.faults.fingerprints import git
from tests.integration.services.git_server import GitServer

TOKEN = "tok-7311-of-the-folder"
VARIABLE = "FOLDER_TOKEN"
FILES = 150
PERSON = 4242
"""Whose the folder is, where the suite may give it away."""
INSTALLS = f"echo ${VARIABLE}; mkdir -p .venv/bin && for n in $(seq 60); do echo $n > .venv/bin/$n; sleep 0.01; done"
CHECKS = "sh -c 'for n in 1 2 3 4 5 6 7 8; do test -f src/0.py || exit 1; echo >> $TMPDIR/looked; sleep 0.1; done'"
WORKS = (
    f"for n in $(seq 0 3 {FILES - 1}); do echo changed > src/$n.py; done; "
    f"for n in $(seq 1 3 {FILES - 1}); do rm src/$n.py; done; rm -r old; chmod 755 src/2.py; mkdir -p new; "
    f"for n in $(seq 40); do echo new > new/$n.py; done"
)
DONE = "completed"
ERRAND, BY_ORDER = "short_errand", "grows_a_tree"


@dataclass(frozen=True)
class Order:
    """``is_at_it``: a worker has begun; ``is_over``: that part of it is done; ``came_to``: how all of it ended, or ""
    while it has not. ``time_passes``: nobody hears of its worker any more. ``about``: what a failure names."""

    about: str
    is_at_it: Callable[[], bool]
    is_over: Callable[[], bool]
    came_to: Callable[[], str]
    time_passes: Callable[[], None] = field(default=lambda: None)
    run: Run | None = None


@dataclass(frozen=True)
class Stage:
    """``writes``: what it changes of the person's folder, "" for nothing. ``mounts``: commands run in that folder, for
    which places are made in it and taken away."""

    name: str
    order: Callable[[Person], Order]
    wanted: str
    writes: str = ""
    mounts: bool = False


class Person:
    """Somebody with a repository of their own in ``folder``, and one on a server. Both are as new before each order."""

    def __init__(self, place: Path, server: GitServer) -> None:
        self.folder, self._as_new, self.server = place / "shop", place / "as-new", server
        self._number = 0
        self.worked: Run | None = None
        """A run whose result there is to take over."""
        _fill(self._as_new)
        AccessRule.objects.get_or_create(project=house.project(), tool="run_command", defaults={"access": "allow"})

    def renew(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run(["cp", "-a", self._as_new, self.folder], check=True)

    def workspace(self, **stated: Any) -> Workspace:
        """One that no order of before is about."""
        self._number += 1
        place = {} if "git_url" in stated else {"path": str(self.folder)}
        given = {"name": f"shop {self._number}", **place, **stated}
        Workspace.objects.filter(copy_for_each_run=False).update(copy_for_each_run=True)
        made: Workspace = WORKSPACES.make(actor=house.boss(), project=house.project(), given=given, allow=True)
        return made

    def submits(self, workspace: Workspace, script: str = ERRAND, **task: Any) -> Run:
        given = {"goal": f"Play {script}", "final_review": "never", **task}
        agent = house.agent(script)
        return submit_task(actor=house.boss(), project=house.project(), agent=agent, workspace=workspace, **given).run

    def work(self) -> Order:
        run = self.submits(self.workspace(), BY_ORDER, goal=f"Do <tree>run_command:{WORKS}</tree>")
        self.worked = run
        return Order(str(run.pk), lambda: True, lambda: True, _end_of(run), run=run)


@contextmanager
def person() -> Iterator[Person]:
    place = Path(tempfile.mkdtemp(prefix="ao-person-"))
    place.chmod(0o755)
    try:
        with GitServer(place).serving() as server:
            server.push({f"src/{number}.py": f"{number}\n" * 200 for number in range(FILES)}, message="Begin")
            server.wants("x-access-token", TOKEN)
            yield Person(place, server)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _fill(folder: Path) -> None:
    """Committed, untracked and ignored files, links, programs, a private file, and none of it from just now."""
    for number in range(FILES):
        file = folder / f"src/{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * 50)
    (folder / "old/deep").mkdir(parents=True)
    (folder / "old/deep/gone.txt").write_text("gone\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    (folder / ".gitignore").write_text("kept\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "untracked.txt").write_text("mine\n")
    (folder / "untracked.txt").chmod(0o600)
    (folder / "kept").mkdir()
    (folder / "kept/notes").write_text("mine\n")
    git(folder, "status")
    for path in (folder, *folder.rglob("*")):
        if os.getuid() == 0:
            os.chown(path, PERSON, PERSON, follow_symlinks=False)
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)


# --- the rows --------------------------------------------------------------------------------------------------------


def fetched(person: Person) -> Order:
    row = person.workspace(git_url=person.server.url, git_token_env=VARIABLE)
    return _prepared(person, row, Setup.Kind.FETCH)


def set_up(person: Person) -> Order:
    row = person.workspace()
    stated = setups.Stated(command=INSTALLS, hosts=["example.com"], secrets=[VARIABLE])
    setups.state(actor=house.boss(), workspace=row, stated=stated)
    return _prepared(person, row, Setup.Kind.SETUP)


def _prepared(person: Person, workspace: Workspace, kind: Setup.Kind) -> Order:
    """For a run that waits for it."""
    run, rows = person.submits(workspace), Setup.objects.filter(workspace=workspace, kind=kind)

    def lost() -> None:
        rows.filter(state=Setup.State.RUNNING).update(until=timezone.now())
        rows.filter(state=Setup.State.WAITING).update(ordered_at=timezone.now() - timedelta(minutes=1))

    def is_at_it() -> bool:
        return rows.filter(state=Setup.State.RUNNING).exists()

    def is_over() -> bool:
        return rows.filter(state=Setup.State.READY).exists()

    return Order(str(run.pk), is_at_it, is_over, _end_of(run), lost, run)


def copied(person: Person) -> Order:
    run = person.submits(person.workspace())
    return Order(
        str(run.pk),
        lambda: Run.objects.filter(pk=run.pk).exclude(owner="").exists(),
        lambda: (copies.root() / str(run.pk)).is_dir(),
        _end_of(run),
        run=run,
    )


def checked(person: Person) -> Order:
    return _checked(person, person.workspace())


def checked_in_place(person: Person) -> Order:
    return _checked(person, person.workspace(copy_for_each_run=False))


def _checked(person: Person, workspace: Workspace) -> Order:
    run = person.submits(workspace, criteria=[{"text": "src is there", "command": CHECKS}])
    rows = Run.objects.filter(pk=run.pk)
    return Order(
        str(run.pk),
        lambda: rows.filter(phase="VERIFY", status=Run.Status.EXECUTING_TOOL).exists(),
        lambda: rows.exclude(phase__in=("PLAN", "ACT", "VERIFY")).exists(),
        _end_of(run),
        run=run,
    )


def tried(person: Person) -> Order:
    """Nothing goes on with it: who lost it asks again."""
    boss, workspace = house.boss(), person.workspace()
    asked: list[Preflight] = []

    def ask() -> None:
        criteria = [{"text": "src is there", "command": CHECKS}]
        about = {"project": house.project(), "agent": house.agent(ERRAND), "workspace": workspace}
        asked.append(preflight.ask(actor=boss, criteria=criteria, **about))

    def state() -> Preflight:
        asked[-1].refresh_from_db()
        return asked[-1]

    def lost() -> None:
        if state().state in Preflight.OPEN:
            Preflight.objects.filter(pk=asked[-1].pk).update(until=timezone.now())
            ask()

    def came_to() -> str:
        return ", ".join(one["status"] for one in state().results) if state().state == "done" else ""

    ask()
    return Order(str(asked[0].pk), lambda: state().state == "running", lambda: bool(came_to()), came_to, lost)


def committed(person: Person) -> Order:
    return _delivered(person, Delivery.Kind.BRANCH)


def applied(person: Person) -> Order:
    return _delivered(person, Delivery.Kind.FOLDER)


def _delivered(person: Person, kind: Delivery.Kind) -> Order:
    """The same result each time, as the folder is as new."""
    run, boss = person.worked, house.boss()
    assert run is not None, "a run worked before"
    digest = delivery.preview(boss, run, kind).plan.digest
    rows = Delivery.objects.filter(pk=delivery.apply_result(actor=boss, run=run, digest=digest, kind=kind).pk)

    def came_to() -> str:
        row = rows.get()
        return "" if row.is_open else f"{row.state} {row.why_not}".strip()

    def lost() -> None:
        """As the sweep does it after some seconds. When it was ordered stands in the commit."""
        dispatch("loops.deliver", delivery=str(rows.get().pk))

    about = str(rows.get().pk)
    return Order(about, lambda: rows.filter(tries__gt=0).exists(), lambda: bool(came_to()), came_to, lost)


def _end_of(run: Run) -> Callable[[], str]:
    def came_to() -> str:
        run.refresh_from_db()
        ended = f"{run.status} {run.end_reason}" if run.status != DONE else DONE
        return ended if run.completed_at is not None else ""

    return came_to


STAGES = (
    Stage("fetch", fetched, DONE),
    Stage("set-up", set_up, DONE),
    Stage("check", checked, DONE),
    Stage("commit", committed, "applied", writes="branch"),
    Stage("apply", applied, "applied", writes="folder"),
    Stage("check in place", checked_in_place, DONE, mounts=True),
    Stage("copy", copied, DONE),
    Stage("try", tried, "passed"),
)
