"""Run the set-up command of a workspace on a copy of it, and keep what is new afterwards (SPEC J4, I7, ADR 0067); or
fetch its repository, and keep that (ADR 0068)."""

from __future__ import annotations

import logging
import mmap
import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connection
from django.utils import timezone

from loops.models import Setup
from loops.runs.composition import sandbox_level
from loops.storage import connections
from loops.tools.limits import Limits
from loops.tools.sandbox.capability import FILES_ONLY, FULL
from loops.tools.sandbox.runner import NO_NETWORK, Job, Outcome
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import CACHES, Workspace
from loops.workspaces import (
    copies,
    fetch_command,
    local_repository,
    networked,
    setup_failure,
    setups,
    sources,
    variables,
)
from loops.workspaces.folder_copy import Copy, WorkspaceElsewhere, WorkspaceUnusable, meanwhile
from loops.workspaces.git.repository import Unusable
from loops.workspaces.networked import Log, Stopped, run

logger = logging.getLogger(__name__)
SECONDS = Limits().command_max_s
"""Package clients unpack in their temporary folder."""
NO_SECRETS = (
    "a secret needs a set-up that no other command can look into, which this machine cannot give it (bubblewrap)"
)
DATABASE_GONE = "The database was not to be had meanwhile."
"""What was done may be whole, and nobody knows: no fault of it, so a run that needs it orders it anew."""
_NAME = "setup-"
_VARIABLES = {"PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_cache": "/tmp/npm"}  # noqa: S108
_VARIABLES |= {"UV_CACHE_DIR": "/tmp/uv", "npm_config_update_notifier": "false", "npm_config_fund": "false"}  # noqa: S108
State = Setup.State


class Failed(Exception):
    """The set-up did not succeed; the message is for people."""


def carry_out(setup_id: uuid.UUID) -> bool:
    """By a worker; False where another one has it. It is not begun twice: a run that still needs it orders it anew."""
    mine = Setup.objects.filter(pk=setup_id, state=State.WAITING, until__gt=timezone.now())
    until = timezone.now() + setups.COMES_WITHIN
    if not mine.update(state=State.RUNNING, until=until, machine=socket.gethostname()):
        return False
    setup = Setup.objects.select_related("workspace__project", "ordered_by").get(pk=setup_id)
    log = Log()
    try:
        with _folder(setup) as work:
            (_fetch if setup.kind == Setup.Kind.FETCH else _build)(setup, work, log)
    except (Failed, WorkspaceUnusable, WorkspaceElsewhere, PathRefused, OSError, ValueError) as error:
        setups.end(setup, State.FAILED, str(error) or type(error).__name__, **log.shown())
    except connections.LOST:
        connection.close_if_unusable_or_obsolete()
        setups.end(setup, State.LOST, DATABASE_GONE, **log.shown())
        raise
    except Exception as error:
        logger.exception("set-up %s", setup.pk)
        setups.end(setup, State.FAILED, f"{type(error).__name__}: {error}", **log.shown())
    return True


@contextmanager
def _folder(setup: Setup) -> Iterator[Path]:
    root = copies.made_root()
    work = root / f"{_NAME}{setup.pk}"  # beside each other: the user of the sandbox passes through the root alone
    for place in (places := (work, _network(work), _made(work))):
        place.mkdir(mode=0o700)
    _network(work).chmod(0o755)
    try:
        yield work
    finally:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)


def _network(work: Path) -> Path:
    return work.with_name(f"{work.name}-network")


def _made(work: Path) -> Path:
    return work.with_name(f"{work.name}-made")


def _build(setup: Setup, work: Path, log: Log) -> None:
    workspace, level = setup.workspace, sandbox_level()
    _refuse_without_commands()
    if setup.hosts and level.level < FULL:
        raise Failed(f"It may reach {', '.join(setup.hosts)}, but {NO_NETWORK}.")
    if setup.secrets and level.level < FULL:
        raise Failed(f"It gets {', '.join(setup.secrets)}, but {NO_SECRETS}.")
    secrets = variables.secret_values(setup.secrets)
    source = copies.existing(workspace)
    key = setups.key_of(setup.command, setup.variables, source)
    copies.fill_for_setup(source, work)
    before = set(_paths(work))
    network = str(_network(work)) if setup.hosts else ""
    environment = {**_VARIABLES, **setup.variables, **secrets}
    words = ("/bin/bash", "-c", setup.command)
    job = Job(words, SECONDS, environment=environment, network=network, run=f"setup {setup.pk}")
    outcome = _run(setup, work, log, job, networked.limits_of(workspace))
    log.tell_of(outcome)
    if outcome.finished.exit_code:
        raise Failed(setup_failure.reason(setup, **log.shown(), finished=outcome.finished))
    _tell(setup, log, setups.COMES_WITHIN)  # copying takes a while
    kept = _keep(setup, _only_new(work, before), secrets)
    _succeed(setup, log, key=key, built_at=setups.seen_at(work), **kept)


def _fetch(setup: Setup, work: Path, log: Log) -> None:
    workspace = setup.workspace
    if why := copies.why_closed(workspace):
        raise Failed(f"It is not fetched: {why}.")
    setup.command = setups.words_of_fetch(workspace)
    setup.hosts = [str(sources.host_of(workspace.git_url))] if workspace.git_url else []
    Setup.objects.filter(pk=setup.pk).update(command=setup.command, hosts=setup.hosts)  # as it is stated now
    limits = fetch_command.limits_of(workspace)
    outcome = (_from_server if workspace.git_url else _from_folder)(setup, work, log, limits)
    log.tell_of(outcome)
    commit = sources.commit_in(work)
    if (finished := outcome.finished).exit_code or not commit:
        shown = log.shown()
        raise Failed(fetch_command.reason(workspace, shown["log"], shown["requests"], finished.killed))
    with Workspace(str(work), limits, made=True) as whole:  # it may have come faster than it is measured
        if why := whole.over_quota():
            raise Failed(f"It is too large: {why}.{setup_failure.raised(why, workspace)}")
    _tell(setup, log, setups.COMES_WITHIN)
    _succeed(setup, log, key=commit, **_keep(setup, work, {}))


def _from_server(setup: Setup, work: Path, log: Log, limits: Limits) -> Outcome:
    if sandbox_level().level < FULL:
        raise Failed(f"It reaches {', '.join(setup.hosts)}, but {NO_NETWORK}.")
    job = fetch_command.job(setup.workspace, str(_network(work)), f"fetch {setup.pk}")
    return _run(setup, work, log, job, limits)


def _from_folder(setup: Setup, work: Path, log: Log, limits: Limits) -> Outcome:
    _refuse_without_commands()
    folder = str(copies.folder_here(setup.workspace))
    try:
        commit = local_repository.commit_of(folder, setup.workspace.git_ref)
        with meanwhile(lambda: _go_on(setup, log)):
            local_repository.copy(folder, work)
    except Unusable as error:
        raise Failed(error.why) from None
    job = fetch_command.job_of_a_folder(commit, f"fetch {setup.pk}")
    return _run(setup, work, log, job, fetch_command.beside_a_copy(limits))


def _refuse_without_commands() -> None:
    if (level := sandbox_level()).level <= FILES_ONLY:
        raise Failed(f"Commands are refused here: {level.warning}")


def _go_on(setup: Setup, log: Log) -> None:
    if not _tell(setup, log):
        raise Failed("It was stopped.")


def _succeed(setup: Setup, log: Log, **found: Any) -> None:
    if not setups.end(setup, State.READY, **found, **log.shown()):
        shutil.rmtree(setups.folder(setup), ignore_errors=True)
    setups.forget_older(setup)


def _run(setup: Setup, work: Path, log: Log, job: Job, limits: Limits) -> Outcome:
    try:
        return run(work, setup.hosts, log, job, limits, lambda: _tell(setup, log))
    except Stopped:
        raise Failed("It was stopped.") from None


def _tell(setup: Setup, log: Log, again: timedelta = setups.UNHEARD) -> bool:
    """Its log so far, and when it is heard of ``again`` at the latest; False when a person has stopped it."""
    rows = Setup.objects.filter(pk=setup.pk, state=State.RUNNING)
    return bool(rows.update(until=timezone.now() + again, **log.shown()))


def _paths(work: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(work):
        here = os.path.relpath(folder, work)
        yield from (os.path.normpath(f"{here}/{name}") for name in (*folders, *files))


def _only_new(work: Path, before: set[str]) -> Path:
    """A folder with what was not there before."""
    draft = _made(work)
    for folder, folders, files in os.walk(work):
        here = os.path.normpath(os.path.relpath(folder, work))
        new = [name for name in (*folders, *files) if os.path.normpath(f"{here}/{name}") not in before]
        folders[:] = [name for name in folders if name not in new and not Path(folder, name).is_symlink()]
        for name in new:
            if name not in CACHES:
                target = draft / here
                target.mkdir(parents=True, exist_ok=True)
                Path(folder, name).rename(target / name)
    return draft


def _keep(setup: Setup, draft: Path, secrets: Mapping[str, str]) -> dict[str, int]:
    """Copy it to where it stays; how many files, and their size in bytes."""
    place = setups.folder(setup)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.mkdir(mode=0o700)
    copy = Copy(draft, place)
    try:
        copy.run()
        if not copy.files:
            raise Failed("The command succeeded, but no new file lies in the folder.")
        if secrets and (held := _holding(place, secrets)):
            raise Failed(f"{held}, and runs would read it. Have the command leave it out.")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return {"files": copy.files, "size": copy.bytes}


def _holding(place: Path, secrets: Mapping[str, str]) -> str:
    """The first file with a secret in it, in words."""
    for folder, _, files in os.walk(place):
        for file in (Path(folder, name) for name in files):
            if file.is_symlink() or not file.stat().st_size:
                continue
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for name, value in secrets.items():
                    if data.find(value.encode()) >= 0:
                        return f"{file.relative_to(place)} holds the value of {name}"
    return ""
