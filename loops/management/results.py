"""Taking over what a run changed, from a terminal: looked at, agreed to, ordered, waited for."""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from loops.management.orders import wait
from loops.models import Delivery, Run
from loops.printable.text import printable
from loops.services import delivery
from loops.workspaces import pull_requests

ORDER_S = 60
_KIND = Delivery.Kind
_DONE = {_KIND.FOLDER: "Applied", _KIND.BRANCH: "Committed", _KIND.PUSH: "Pushed"}


def declare(verbs: Any) -> None:
    """``apply``, ``commit``, ``push`` and ``pull-request``."""
    applied = verbs.add_parser("apply", help="write what a run changed into the folder that it worked on a copy of")
    committed = verbs.add_parser(
        "commit", help="commit what a run changed there on a new branch, and touch nothing else"
    )
    pushed = verbs.add_parser("push", help="push what a run changed as a new branch to the server of its repository")
    for parser in (applied, committed, pushed):
        parser.add_argument("run", type=uuid.UUID)
        parser.add_argument("--yes", action="store_true", help="do it without a question")
    text: argparse.ArgumentParser = verbs.add_parser("pull-request", help="print title and text of a pull request")
    text.add_argument("run", type=uuid.UUID)


def take_over(command: BaseCommand, actor: Any, run: Run, kind: Delivery.Kind, *, yes: bool) -> None:
    """Raises CommandError, NotAllowed or NotPossible."""
    now = delivery.preview(actor, run, kind)
    for line in now.left_out:
        command.stderr.write(f"not part of it: {line}")
    if why := delivery.why_not(now):
        raise CommandError(why)
    for file in now.plan.files:
        source = f" from {file.source}" if file.source else ""
        command.stdout.write(printable(f"{file.what + source:<8} {file.path}{'/' if file.is_folder else ''}"))
    for path in now.plan.obeyed:
        command.stderr.write(f"look at it first, programs run or obey it by themselves: {path}")
    if not yes and not _agrees(printable(_question(now))):
        raise CommandError("Nothing was written. To do it without a question, add --yes.")
    ended = delivery.apply_result(actor=actor, run=run, digest=now.plan.digest, kind=kind)
    wait(ended, ORDER_S)
    if ended.is_open:
        raise CommandError(f"{ended.get_state_display()}. It goes on without this command: see the run's page.")
    if ended.why_not:
        raise CommandError(f"Not {_DONE[kind].lower()}. {ended.why_not}")
    what = f" {ended.branch} of" if ended.branch else ""
    command.stdout.write(f"{_DONE[kind]} to{what} {ended.folder}{f': {ended.commit}' if ended.commit else ''}")


def pull_request(command: BaseCommand, run: Run) -> None:
    """Title, an empty line, text. Raises NoPatch."""
    found = pull_requests.of(run)
    command.stdout.write(f"{found.title}\n\n{found.body}", ending="")


def _question(now: delivery.Preview) -> str:
    if now.kind == _KIND.FOLDER:
        return f"Apply to {now.plan.folder}?"
    rows = now.plan.rows
    what = "Push" if now.kind == _KIND.PUSH else "Commit"
    return f"{what} to the branch {rows['branch']} of {now.plan.folder}, after {rows['parent'][:12] or 'nothing'}?"


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
