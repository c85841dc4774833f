"""What the set-up command of a workspace installs: kept by what it depends on, and added to the copies of runs.

Tests need packages, and a repository names them without holding them. The command runs once on a copy
(``installation.py``); runs get what was new afterwards, such as ``.venv`` and ``node_modules`` (SPEC J4, ADR 0067).
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.utils import timezone

from loops.engine.text.truncation import shortened
from loops.models import Run, Setup, Workspace
from loops.runs.composition import roots, run_folders, sandbox_level
from loops.services import audit
from loops.storage.dispatch import hand_over, ring
from loops.tools.sandbox.capability import FULL
from loops.tools.sandbox.command import ENVIRONMENT
from loops.tools.sandbox.command import WORKSPACE as INSIDE
from loops.workspaces.folder_copy import CHUNK, Copy, WorkspaceElsewhere, WorkspaceUnusable

JOB = "loops.setup"
INSTALLED = frozenset({ENVIRONMENT, "node_modules"})
"""Folders that a set-up installs: those of the source fit another place, and are left out."""
NAMES_DEPENDENCIES = frozenset(
    {
        *("pyproject.toml", "setup.py", "setup.cfg", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock"),
        *(
            "package.json",
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "pnpm-workspace.yaml",
        ),
        *("go.mod", "go.sum", "Cargo.toml", "Cargo.lock", "Gemfile", "Gemfile.lock", "composer.json", "composer.lock"),
        *("Makefile", "tox.ini", "noxfile.py", ".python-version", ".nvmrc", ".tool-versions", "environment.yml"),
    }
)
DEEPEST = 3
"""Folder levels below which nobody looks for them."""
UNHEARD = timedelta(seconds=60)
"""A worker says that it is at work more often than that."""
COMES_WITHIN = timedelta(minutes=10)
NAME_CHARS = 60
MOST_LOST = 5
"""Workers for one run: then it is the set-up that they die of."""
KEPT = 2
"""Of one workspace: the one in use, and the one before it, which may still be in the middle of a copy."""
_FORMAT = b"1"
_FOLDER = "setups"
MOST_FILES = 500
State, Kind = Setup.State, Setup.Kind
ORDERED = {Kind.SETUP: "workspace.setup", Kind.FETCH: "workspace.fetch"}
ENDED = {Kind.SETUP: "workspace.setup_ended", Kind.FETCH: "workspace.fetch_ended"}
"""Kinds of audit events."""


def ready(workspace: Workspace, source: Path, run: Run | None = None) -> Setup:
    """The set-up for the folder as it is now. Raises WorkspaceElsewhere while there is none, and orders it; raises
    WorkspaceUnusable where it failed since ``run`` was submitted."""
    key, name = key_of(workspace.setup_command, workspace.variables, source), shortened(workspace.name, NAME_CHARS)
    rows = Setup.objects.filter(workspace=workspace, kind=Kind.SETUP, key=key)
    found = rows.filter(state=State.READY).first()
    if found is not None and is_here(found):
        return found
    if (other := under_way(workspace)) is not None:
        raise WorkspaceElsewhere(f"The {other.get_kind_display().lower()} of {name} is under way")
    if run is not None:
        refuse_what_failed(rows, run, f"The set-up of workspace {name} did not succeed")
    order(workspace, key)
    raise WorkspaceElsewhere(f"The set-up of {name} begins")


def is_here(found: Setup) -> bool:
    """Are its files on this machine? Raises WorkspaceElsewhere where another one has just made them, and goes on with
    them; a machine that went away, or lost them, is not waited for."""
    if folder(found).is_dir():
        return True
    is_new = found.ended_at is not None and found.ended_at > timezone.now() - COMES_WITHIN
    if is_new and found.machine != socket.gethostname():
        what, name = found.get_kind_display().lower(), shortened(found.workspace.name, NAME_CHARS)
        raise WorkspaceElsewhere(f"The {what} of {name} is on worker {found.machine}")
    return False


def refuse_what_failed(rows: Any, run: Run, what: str) -> None:
    """Raise WorkspaceUnusable where one of ``rows`` failed since ``run`` was submitted. A worker that was lost is no
    fault of what it did, unless it always is."""
    since = rows.filter(ended_at__gt=run.task.created_at)
    lost = since.filter(state=State.LOST)
    failed = since.filter(state__in=[State.FAILED, State.STOPPED]).first()
    failed = failed or (lost.first() if lost.count() >= MOST_LOST else None)
    if failed is not None:
        again = "Its log is under Workspaces. Put it right, and submit the task again."
        raise WorkspaceUnusable(f"{what}: {failed.why_not} {again}")


def under_way(workspace: Workspace) -> Setup | None:
    """The one that waits or runs; one whose worker was lost is ended here."""
    found = Setup.objects.filter(workspace=workspace, state__in=Setup.OPEN).first()
    if found is not None and found.is_lost:
        lose(found)
        return None
    return found


def lose(setup: Setup) -> bool:
    """End one whose worker was lost; False where it was ended already."""
    return end(setup, State.LOST, "Its worker was lost.")


def words_of_fetch(workspace: Workspace) -> str:
    """By which a fetch is known: another address, or another branch, is another one."""
    return f"git fetch {workspace.git_url or workspace.path} {workspace.git_ref or 'HEAD'}"


def order(workspace: Workspace, key: str = "", actor: Any = None, kind: Kind = Kind.SETUP) -> Setup | None:
    """Have a worker run it; None where it is under way already."""
    is_fetch = kind == Kind.FETCH
    try:
        with transaction.atomic():
            setup = Setup.objects.create(
                workspace=workspace,
                kind=kind,
                key=key,
                command=words_of_fetch(workspace) if is_fetch else workspace.setup_command,
                variables={} if is_fetch else workspace.variables,
                hosts=_hosts(workspace) if is_fetch else workspace.granted_hosts,
                secrets=[] if is_fetch else workspace.granted_secrets,
                ordered_by=actor,
                until=timezone.now() + COMES_WITHIN,
            )
            granted = {"hosts": setup.hosts, "secrets": setup.secrets}
            detail = {"workspace": workspace.name, "command": setup.command, **granted}
            audit.record(ORDERED[kind], actor=actor, project=workspace.project, detail=detail)
            hand_over(JOB, setup=str(setup.pk))
            return setup
    except IntegrityError:
        return None


def _hosts(workspace: Workspace) -> list[str]:
    return [urlsplit(workspace.git_url).netloc] if workspace.git_url else []


def end(setup: Setup, state: State, why_not: str = "", **more: Any) -> bool:
    """False where it was ended already."""
    ended = {"state": state, "why_not": why_not, "ended_at": timezone.now(), **more}
    with transaction.atomic():
        if not Setup.objects.filter(pk=setup.pk, state__in=Setup.OPEN).update(**ended):
            return False
        detail = {"workspace": setup.workspace.name, "state": state, "hosts": more.get("requests", [])}
        if why_not:
            detail["why"] = why_not
        project = setup.workspace.project
        audit.record(ENDED[Kind(setup.kind)], actor=setup.ordered_by, project=project, detail=detail)
        _wake_runs(setup.workspace)
    return True


def _wake_runs(workspace: Workspace) -> None:
    """Those that wait for it would look again, but not at once."""
    status = Run.Status.WAITING_FOR_RESOURCE
    waiting = Run.objects.filter(task__workspace=workspace, status=status, owner="")
    run_ids = list(waiting.values_list("pk", flat=True))
    waiting.update(lease_until=None, wake_at=timezone.now())
    for run_id in run_ids:
        ring(run_id)


def place() -> Path:
    """Where the files of all of them lie."""
    return Path(run_folders()) / _FOLDER


def folder(setup: Setup) -> Path:
    """Where its files lie."""
    return place() / str(setup.pk)


def forget_older(setup: Setup) -> None:
    """All but the latest that succeeded."""
    rows = Setup.objects.filter(workspace=setup.workspace, kind=setup.kind, state=State.READY)
    for old in rows[KEPT:]:
        shutil.rmtree(folder(old), ignore_errors=True)


def lay(setup: Setup, target: Path, place: Path) -> None:
    """Add its files to a copy of the workspace, which will lie at ``place``. The copy's own files stay."""
    try:
        Copy(folder(setup), target, beside=True).run()
    except FileNotFoundError as error:
        raise WorkspaceElsewhere(
            f"The set-up of {shortened(setup.workspace.name, NAME_CHARS)} was replaced just now"
        ) from error
    seen = seen_at(place)
    if setup.built_at != seen:
        for file in _naming_their_place(target):
            data = file.read_bytes()
            moved = data.replace(os.fsencode(setup.built_at), os.fsencode(seen))
            if moved != data:
                file.write_bytes(moved)


def seen_at(place: Path) -> str:
    """Where commands see a folder of ours."""
    return INSIDE if sandbox_level().level >= FULL else str(place)


def _naming_their_place(target: Path) -> Iterator[Path]:
    """Files of a Python environment that name the folder it was installed in."""
    top = target / ENVIRONMENT
    if top.is_symlink():
        return
    patterns = ("pyvenv.cfg", "bin/*", "lib/*/site-packages/*.pth", "lib/*/site-packages/__editable__*")
    for pattern in patterns:
        for file in top.glob(pattern):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= CHUNK:
                yield file


def key_of(command: str, variables: Mapping[str, str], source: Path) -> str:
    """The hash of what a set-up depends on: its words, its variables, and the files that name dependencies or that it
    names."""
    digest = hashlib.sha256(_FORMAT)
    digest.update(command.encode())
    if variables:
        digest.update(b"\0" + json.dumps(variables, sort_keys=True).encode() + b"\0")
    named = {word.removeprefix("./") for word in _words(command)}
    with roots().opened(str(source)) as top:
        for path, content in islice(_files(top, named), MOST_FILES):
            digest.update(b"\0" + os.fsencode(path) + b"\0" + content)
    return digest.hexdigest()


def _files(top: int, named: set[str]) -> Iterator[tuple[str, bytes]]:
    for where, folders, files, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        inside = os.path.normpath(where)
        depth = 0 if inside == "." else inside.count("/") + 1
        folders[:] = sorted(
            one for one in folders if depth < DEEPEST and one not in INSTALLED and not one.startswith(".")
        )
        for name in sorted(files):
            path = os.path.normpath(f"{inside}/{name}")
            if path in named or name in NAMES_DEPENDENCIES or (name.startswith("requirements") and depth < 2):
                yield path, _hash(name, descriptor)


def _hash(name: str, folder: int) -> bytes:
    """Of a regular file; of anything else, that it is none."""
    with suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    return b"-"


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return command.split()
