"""``agentops toml WORKSPACE``: see what its `agentops.toml` states, accept it or decline it (SPEC X2, T3)."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from django.core.management.base import CommandError

from loops.management.lookup import one, user
from loops.management.terminal import TerminalCommand
from loops.models import Project, Workspace
from loops.printable.text import printable
from loops.services import repository_files as service
from loops.services.repository_files import RepositoryFile

DEFAULT = "demo"
SHORTEST = 12
"""Characters of a hash that stand for all of it."""


def declare(parser: argparse.ArgumentParser) -> None:
    """One workspace, and what is decided."""
    parser.add_argument("workspace", help="name or id")
    parser.add_argument("--project", default=DEFAULT, help="slug or id (default: %(default)s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--accept", metavar="SHA256", help=f"use this content; its first {SHORTEST} characters will do")
    what.add_argument("--decline", metavar="SHA256", help="go on without this content")
    what.add_argument("--drop", action="store_true", help="use none any more")
    parser.add_argument(
        "--allow", action="store_true", help="with --accept: its set-up may reach its hosts. Superusers only"
    )


def do(command: TerminalCommand, options: dict[str, Any]) -> None:
    """Decide about it; then, or without a decision, say how it stands."""
    actor = user(str(options["actor"]))
    project: Project = one(Project.objects.visible_to(actor), "project", str(options["project"]), "slug")
    rows = Workspace.objects.filter(project=project).select_related("project", "toml_by")
    row: Workspace = one(rows, "workspace", str(options["workspace"]), "name")
    if options["accept"]:
        sha256 = _whole(row, options["accept"])
        for line in service.accept(actor=actor, workspace=row, sha256=sha256, allow=options["allow"]):
            command.stderr.write(printable(line))
    elif options["decline"]:
        service.decline(actor=actor, workspace=row, sha256=_whole(row, options["decline"]))
    elif options["drop"]:
        service.drop(actor=actor, workspace=row)
    show(command, service.look(rows.get(pk=row.pk)))


def _whole(row: Workspace, given: str) -> str:
    """The hash of what is there, where ``given`` begins it; else what was given, which nothing has."""
    if len(given) < SHORTEST:
        raise CommandError(f"Give at least {SHORTEST} characters of the hash: agentops toml {row.name} shows it.")
    found = service.look(row).found
    return found.sha256 if found is not None and found.sha256.startswith(given.lower()) else given


def show(command: TerminalCommand, standing: RepositoryFile) -> None:
    """How it stands, what it states, and what is to be typed to accept it."""
    name = standing.workspace.name
    command.stdout.write(printable(standing.said or f"{name} has no {service.NAME}."))
    for what, value in standing.lines:
        command.stdout.write(printable(f"  {what}: {value}"))
    if standing.diff and standing.workspace.toml_by_id is not None:
        command.stdout.write("".join(f"{printable(line)}\n" for line in standing.diff.split("\n")), ending="")
    if standing.found is not None and standing.diff and standing.state != service.State.NONE:
        slug = standing.workspace.project.slug
        words = ["agentops", "toml", name, "--accept", standing.found.sha256[:SHORTEST]]
        words += [] if slug == DEFAULT else ["--project", slug]
        command.stdout.write(printable(f"To use it: {shlex.join(words)}"))
