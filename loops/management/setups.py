"""``agentops setup WORKSPACE``: state how a workspace is set up and tested, run that, and see its log (SPEC J4, T3)."""

from __future__ import annotations

import argparse
import time
from typing import Any

from django.core.management.base import CommandError

from loops.management.lookup import one, user
from loops.management.orders import PAUSE_S
from loops.management.terminal import TerminalCommand
from loops.models import Project, Setup, Workspace
from loops.printable.text import prose
from loops.services import setups as service
from loops.workspaces import setups, variables

NO_WORKER = "No worker has taken it. It goes on as soon as one does; agentops setup shows what became of it."
WORKER_S = 60


def declare(parser: argparse.ArgumentParser) -> None:
    """One workspace, and what is to be changed."""
    parser.usage = "%(prog)s WORKSPACE [options]"
    parser.add_argument("workspace", help="name or id")
    parser.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")
    parser.add_argument("--command", help="runs once on a copy; runs get what it installs")
    parser.add_argument("--tests", help="what new tasks are judged by")
    parser.add_argument("--variable", action="append", metavar="NAME=value", help="of all commands; once for each")
    parser.add_argument("--no-variables", action="store_true", help="take them away")
    parser.add_argument("--host", action="append", help="the set-up may reach it; once for each. Superusers only")
    parser.add_argument("--no-hosts", action="store_true", help="it may reach none")
    parser.add_argument(
        "--secret",
        action="append",
        metavar="NAME",
        help="a variable of the worker, by name, for the set-up alone; once for each. Superusers only",
    )
    parser.add_argument("--no-secrets", action="store_true", help="it gets none")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--run", action="store_true", help="run it now, and follow its log")
    what.add_argument("--stop", action="store_true", help="stop the one that is under way")


def do(command: TerminalCommand, options: dict[str, Any]) -> None:
    """Change it, run it or stop it; without any of these say how it stands."""
    actor = user(str(options["actor"]))
    project: Project = one(Project.objects.visible_to(actor), "project", str(options["project"]), "slug")
    row: Workspace = one(
        Workspace.objects.filter(project=project).select_related("project"),
        "workspace",
        str(options["workspace"]),
        "name",
    )
    if (stated := _stated(options)) != service.Stated():
        for line in service.state(actor=actor, workspace=row, stated=stated):
            command.stderr.write(line)
    if options["stop"]:
        command.stdout.write("Stopped." if service.stop(actor=actor, workspace=row) else "No set-up is under way.")
    elif options["run"]:
        follow(command, service.run(actor=actor, workspace=row))
    else:
        _show(command, row)


def _stated(options: dict[str, Any]) -> service.Stated:
    try:
        given = _several(options, "variable", "no_variables")
        named = None if given is None else variables.parse(given)
    except ValueError as error:
        raise CommandError(str(error)) from error
    hosts, secrets = _several(options, "host", "no_hosts"), _several(options, "secret", "no_secrets")
    return service.Stated(options["command"], options["tests"], named, hosts, secrets)


def _several(options: dict[str, Any], name: str, none: str) -> list[str] | None:
    """Those that are named instead of all others; None for what stays as it is."""
    found: list[str] | None = options[name]
    return [] if found is None and options[none] else found


def _show(command: TerminalCommand, row: Workspace) -> None:
    if row.is_fetched:
        last = row.latest(Setup.Kind.FETCH)
        command.stdout.write(f"repository: {row.source}, {_outcome(last) if last is not None else 'not fetched yet'}")
    command.stdout.write(f"set-up: {row.setup_command or 'none'}")
    command.stdout.write(f"tests: {row.test_command or 'none'}")
    for line in variables.lines(row.variables):
        command.stdout.write(f"variable: {line}")
    command.stdout.write(f"hosts: {', '.join(row.granted_hosts) or 'none'}")
    if row.granted_secrets:
        command.stdout.write(f"secrets: {', '.join(row.granted_secrets)}")
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
