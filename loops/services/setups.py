"""What people say of the set-up of a workspace: its command, the hosts that it may reach, run it, stop it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from loops.masking import LEAVE_OUT, known
from loops.models import Setup, Workspace
from loops.querysets import ADMINISTER, OPERATE
from loops.services import audit
from loops.services.access import require
from loops.services.people import NotPossible
from loops.tools.sandbox.network.hosts import hosts
from loops.workspaces import copies, setups, sources

LONGEST_COMMAND = 4_000
LONGEST_TESTS = 2_000
NOTHING_TO_FETCH = "Its source is no repository on a server: state the address of one first."
NOT_FETCHED = "Its repository was not fetched yet. Fetch it first."
NOTHING_TO_RUN = "The workspace has no set-up command. State one first."
UNDER_WAY = "It is under way already."
IN_PLACE = "A set-up is for copies of a folder. Where runs work in the folder itself, set it up there yourself."
ONLY_A_SUPERUSER = "Which hosts a set-up may reach is for a superuser to say."
State = Setup.State


def state(
    *, actor: Any, workspace: Workspace, command: str, tests: str, allowed: Sequence[str] | None = None
) -> list[str]:
    """Keep what is to be run; ``allowed`` are hosts (None: as it is). Returns what they should know of it. Raises
    NotAllowed or NotPossible."""
    require(actor, workspace.project, ADMINISTER, what="change the set-up of a workspace")
    command, tests = command.replace("\r\n", "\n").strip(), tests.strip()
    if why := _fault(workspace, command, tests):
        raise NotPossible(why)
    before = workspace.granted_hosts
    found = before if allowed is None else _permitted(actor, workspace, allowed)
    with transaction.atomic():
        if (command, tests) != (workspace.setup_command, workspace.test_command):
            workspace.setup_command, workspace.test_command = command, tests
            detail = {"workspace": workspace.name, "setup": command, "tests": tests}
            audit.record("workspace.changed", actor=actor, project=workspace.project, detail=detail)
        workspace.save()
        if allowed is not None and found != workspace.granted_hosts and actor.is_superuser:
            _let_reach(actor, workspace, found)
    if before and found and not workspace.granted_hosts:
        return [f"The set-up may not reach {', '.join(before)} any more: a superuser allowed it for another command."]
    return []


def _permitted(actor: Any, workspace: Workspace, names: Sequence[str]) -> list[str]:
    """The hosts that they name. Raises NotPossible where others than until now are not theirs to allow."""
    try:
        found = [str(host) for host in hosts(names)]
    except ValueError as error:
        raise NotPossible(str(error)) from error
    if found != workspace.granted_hosts and not actor.is_superuser:
        detail = {"what": "let a set-up reach hosts", "workspace": workspace.name, "hosts": found}
        audit.record("access.refused", actor=actor, project=workspace.project, detail=detail)
        raise NotPossible(ONLY_A_SUPERUSER)
    return found


def _let_reach(actor: Any, workspace: Workspace, found: list[str]) -> None:
    """The set-up as it is now, and no other."""
    workspace.network_hosts, workspace.network_for = found, workspace.what_may_reach_hosts
    workspace.network_by, workspace.network_at = actor, timezone.now()
    workspace.save()
    detail = {"workspace": workspace.name, "hosts": found, "command": workspace.setup_command}
    audit.record("workspace.network", actor=actor, project=workspace.project, detail=detail)


def run(*, actor: Any, workspace: Workspace) -> Setup:
    """Order it. Raises NotAllowed or NotPossible."""
    require(actor, workspace.project, OPERATE, what="run the set-up of a workspace")
    if not workspace.setup_command:
        raise NotPossible(NOTHING_TO_RUN)
    if workspace.git_url and sources.fetched(workspace) is None:
        raise NotPossible(NOT_FETCHED)
    if why := copies.refusal(workspace):
        raise NotPossible(why)
    ordered = None if setups.under_way(workspace) else setups.order(workspace, actor=actor)
    if ordered is None:
        raise NotPossible(UNDER_WAY)
    return ordered


def fetch(*, actor: Any, workspace: Workspace) -> Setup:
    """Order that its repository is fetched. Raises NotAllowed or NotPossible."""
    require(actor, workspace.project, OPERATE, what="fetch the repository of a workspace")
    if not workspace.git_url:
        raise NotPossible(NOTHING_TO_FETCH)
    if why := copies.refusal(workspace):
        raise NotPossible(why)
    if (ordered := sources.order(workspace, actor)) is None:
        raise NotPossible(UNDER_WAY)
    return ordered


def stop(*, actor: Any, workspace: Workspace) -> bool:
    """End the set-up, or the fetch, that is under way; False where there is none. Raises NotAllowed."""
    require(actor, workspace.project, OPERATE, what="stop the set-up of a workspace")
    found = setups.under_way(workspace)
    return found is not None and setups.end(found, State.STOPPED, f"Stopped by {actor}.")


def _fault(workspace: Workspace, command: str, tests: str) -> str:
    if len(command) > LONGEST_COMMAND or len(tests) > LONGEST_TESTS:
        return f"A set-up has at most {LONGEST_COMMAND:,} characters, a test command {LONGEST_TESTS:,}."
    if "\0" in command + tests or "\n" in tests:
        return "A command is text without a NUL, and a test command is one line."
    if known().is_in([command, tests]):
        return LEAVE_OUT
    return IN_PLACE if command and not workspace.copy_for_each_run else ""
