"""``agentops setup WORKSPACE``: state how a workspace is set up and tested, run that, and see its log (SPEC J4, T3)."""

from __future__ import annotations

import argparse
import time

from django.core.management.base import CommandError

from loops.management.lookup import one, user
from loops.management.orders import PAUSE_S
from loops.management.terminal import TerminalCommand
from loops.models import Project, Setup, Workspace
from loops.printable.text import prose
from loops.services import setups as service
from loops.workspaces import setups

NO_WORKER = "No worker has taken it. It goes on as soon as one does; agentops setup shows what became of it."
WORKER_S = 60


def declare(parser: argparse.ArgumentParser) -> None:
    """One workspace, and what is to be changed."""
    parser.add_argument("workspace", help="name or id")
    parser.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")
    parser.add_argument("--command", help="runs once on a copy; runs get what it installs")
    parser.add_argument("--tests", help="what new tasks are judged by")
    parser.add_argument("--host", action="append", help="the set-up may reach it; once for each. Superusers only")
    parser.add_argument("--no-hosts", action="store_true", help="it may reach none")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--run", action="store_true", help="run it now, and follow its log")
    what.add_argument("--stop", action="store_true", help="stop the one that is under way")


def do(command: TerminalCommand, options: dict[str, object]) -> None:
    """Change it, run it or stop it; without any of these say how it stands."""
    actor = user(str(options["actor"]))
    project: Project = one(Project.objects.visible_to(actor), "project", str(options["project"]), "slug")
    row: Workspace = one(
        Workspace.objects.filter(project=project).select_related("project"),
        "workspace",
        str(options["workspace"]),
        "name",
    )
    changed = [options["command"], options["tests"], options["host"]]
    if options["no_hosts"] or any(each is not None for each in changed):
        _state(command, actor, row, options)
    if options["stop"]:
        command.stdout.write("Stopped." if service.stop(actor=actor, workspace=row) else "None is under way.")
    elif options["run"]:
        follow(command, service.run(actor=actor, workspace=row))
    else:
        _show(command, row)


def _state(command: TerminalCommand, actor: object, row: Workspace, options: dict[str, object]) -> None:
    hosts = options["host"]
    allowed = [str(host) for host in hosts] if isinstance(hosts, list) else [] if options["no_hosts"] else None
    words, tests = options["command"], options["tests"]
    for line in service.state(
        actor=actor,
        workspace=row,
        command=row.setup_command if words is None else str(words),
        tests=row.test_command if tests is None else str(tests),
        allowed=allowed,
    ):
        command.stderr.write(line)


def _show(command: TerminalCommand, row: Workspace) -> None:
    if row.git_url:
        last = row.latest(Setup.Kind.FETCH)
        command.stdout.write(f"repository: {row.git_url}, {_outcome(last) if last is not None else 'not fetched yet'}")
    command.stdout.write(f"set-up: {row.setup_command or 'none'}")
    command.stdout.write(f"tests: {row.test_command or 'none'}")
    command.stdout.write(f"hosts: {', '.join(row.granted_hosts) or 'none'}")
    if (latest := row.latest(Setup.Kind.SETUP)) is not None:
        command.stdout.write(f"latest: {_outcome(latest)}")


def follow(command: TerminalCommand, setup: Setup, worker_s: float = WORKER_S) -> None:
    """Print its log as it comes; a worker has to begin in ``worker_s``. Raises CommandError where it does not
    succeed."""
    shown, begins_by = "", time.monotonic() + worker_s
    while True:
        setup.refresh_from_db()
        if setup.log != shown:
            kept = shown if setup.log.startswith(shown) else ""
            command.stdout.write(prose(setup.log[len(kept) :]), ending="")
            shown = setup.log
        if not setup.is_open:
            break
        if setup.state == Setup.State.WAITING and time.monotonic() > begins_by:
            raise CommandError(NO_WORKER)
        time.sleep(PAUSE_S)
    if setup.state != Setup.State.READY:
        raise CommandError(_outcome(setup))
    command.stdout.write(_outcome(setup))


def _outcome(setup: Setup) -> str:
    if setup.is_lost:
        return "its worker was lost"
    if setup.commit and setup.state == Setup.State.READY:
        return f"fetched: {setup.commit}, {setup.files:,} files"
    if setup.state == Setup.State.READY:
        return f"ready: {setup.files:,} files in {setups.folder(setup)}"
    return f"{setup.get_state_display().lower()}{f': {setup.why_not}' if setup.why_not else ''}"
