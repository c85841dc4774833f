"""What people say of a workspace: its set-up, what it is granted, its tests and variables; run the set-up, stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from loops.workspaces import variables as environment

LONGEST_COMMAND = 4_000
LONGEST_TESTS = 2_000
NOTHING_TO_FETCH = (
    "Nothing to fetch: give the workspace the address of a repository, or a branch, tag or commit of its folder."
)
NOT_FETCHED = "Its repository was not fetched yet. Fetch it first."
NOTHING_TO_RUN = "The workspace has no set-up command. State one first."
UNDER_WAY = "It is under way already. Wait for its end, or stop it."
GRANT = "say which hosts a set-up may reach and which secrets it gets"
IN_PLACE = "A set-up is for copies of a folder. Runs work in this folder itself: set it up there yourself."
ONLY_A_SUPERUSER = "Which hosts a set-up may reach, and which secrets it gets, is for a superuser to say."
NAME_IT = "A superuser can name the variable of the worker that holds it, for the set-up alone."
State = Setup.State


@dataclass(frozen=True, slots=True)
class Stated:
    """What somebody says of it; None: as it is."""

    command: str | None = None
    tests: str | None = None
    variables: Mapping[str, str] | None = None
    hosts: Sequence[str] | None = None
    secrets: Sequence[str] | None = None
    """Names of variables of the worker."""


def state(*, actor: Any, workspace: Workspace, stated: Stated) -> list[str]:
    """Keep it. Returns what they should know of it. Raises NotAllowed or NotPossible."""
    require(actor, workspace.project, ADMINISTER, what="change the set-up of a workspace")
    before = {name: getattr(workspace, name) for name in ("setup_command", "test_command", "variables")}
    now = _now(before, stated)
    if why := _fault(workspace, **now):
        raise NotPossible(why)
    granted = _granted(workspace)
    hosts, secrets = _permitted(actor, workspace, stated)
    if both := sorted({*(secrets or ())} & {*now["variables"]}):
        raise NotPossible(f"{', '.join(both)} is among the variables as well: state it once.")
    with transaction.atomic():
        for name, value in now.items():
            setattr(workspace, name, value)
        if now != before:
            detail = _changed(workspace, before["variables"])
            audit.record("workspace.changed", actor=actor, project=workspace.project, detail=detail)
        workspace.save(update_fields=[*now])
        left = _granted(workspace)
        wanted = (left[0] if hosts is None else hosts, left[1] if secrets is None else secrets)
        if wanted != left and actor.is_superuser:
            _grant(actor, workspace, *wanted)
    return _ended(granted, (hosts, secrets), _granted(workspace))


def _now(before: Mapping[str, Any], stated: Stated) -> dict[str, Any]:
    command, tests = stated.command, stated.tests
    return {
        "setup_command": before["setup_command"] if command is None else command.replace("\r\n", "\n").strip(),
        "test_command": before["test_command"] if tests is None else tests.strip(),
        "variables": before["variables"] if stated.variables is None else dict(stated.variables),
    }


def _changed(workspace: Workspace, before: Mapping[str, str]) -> dict[str, Any]:
    """For the audit log: of variables their names."""
    now = workspace.variables
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    more = {"variables": sorted(now), "changed": changed} if changed else {}
    return {"workspace": workspace.name, "setup": workspace.setup_command, "tests": workspace.test_command, **more}


def _granted(workspace: Workspace) -> tuple[list[str], list[str]]:
    return workspace.granted_hosts, workspace.granted_secrets


def _permitted(actor: Any, workspace: Workspace, stated: Stated) -> tuple[list[str] | None, list[str] | None]:
    """The hosts and the secrets that they name. Raises NotPossible where others than until now are not theirs to
    grant."""
    try:
        allowed = None if stated.hosts is None else [str(host) for host in hosts(stated.hosts)]
    except ValueError as error:
        raise NotPossible(str(error)) from error
    secrets = None if stated.secrets is None else sorted({*stated.secrets})
    asked = [(new, old) for new, old in zip((allowed, secrets), _granted(workspace), strict=True) if new is not None]
    if any(new != old for new, old in asked) and not actor.is_superuser:
        detail = {"what": GRANT, "workspace": workspace.name, "hosts": allowed, "secrets": secrets}
        audit.record("access.refused", actor=actor, project=workspace.project, detail=detail)
        raise NotPossible(ONLY_A_SUPERUSER)
    if faults := environment.secret_faults(secrets or ()):
        raise NotPossible(" ".join(faults))
    return allowed, secrets


def _grant(actor: Any, workspace: Workspace, allowed: list[str], secrets: list[str]) -> None:
    """To the set-up as it is now, and no other."""
    workspace.network_hosts, workspace.secret_names = allowed, secrets
    workspace.network_for = workspace.what_a_grant_is_for
    workspace.network_by, workspace.network_at = actor, timezone.now()
    workspace.save(update_fields=["network_hosts", "secret_names", "network_for", "network_by", "network_at"])
    detail = {"workspace": workspace.name, "hosts": allowed, "secrets": secrets, "command": workspace.setup_command}
    audit.record("workspace.network", actor=actor, project=workspace.project, detail=detail)


def _ended(
    before: tuple[list[str], list[str]], wanted: tuple[list[str] | None, list[str] | None], now: tuple[list[str], ...]
) -> list[str]:
    """What was granted, is not taken back by anybody, and has ended all the same."""
    why = "any more: a superuser allowed it for another command or other variables."
    said = []
    for words, had, asked, has in zip(("reach", "get"), before, wanted, now, strict=True):
        if lost := [one for one in had if one not in has and (asked is None or one in asked)]:
            said.append(f"The set-up may not {words} {', '.join(lost)} {why}")
    return said


def run(*, actor: Any, workspace: Workspace) -> Setup:
    """Order it. Raises NotAllowed or NotPossible."""
    require(actor, workspace.project, OPERATE, what="run the set-up of a workspace")
    if not workspace.setup_command:
        raise NotPossible(NOTHING_TO_RUN)
    if workspace.is_fetched and sources.fetched(workspace) is None:
        raise NotPossible(NOT_FETCHED)
    if why := copies.why_refused(workspace):
        raise NotPossible(why)
    ordered = None if setups.under_way(workspace) else setups.order(workspace, actor=actor)
    if ordered is None:
        raise NotPossible(UNDER_WAY)
    return ordered


def fetch(*, actor: Any, workspace: Workspace) -> Setup:
    """Order that its repository is fetched. Raises NotAllowed or NotPossible."""
    require(actor, workspace.project, OPERATE, what="fetch the repository of a workspace")
    if not workspace.is_fetched:
        raise NotPossible(NOTHING_TO_FETCH)
    if why := copies.why_refused(workspace):
        raise NotPossible(why)
    if (ordered := sources.order(workspace, actor)) is None:
        raise NotPossible(UNDER_WAY)
    return ordered


def stop(*, actor: Any, workspace: Workspace) -> bool:
    """End the set-up, or the fetch, that is under way; False where there is none. Raises NotAllowed."""
    require(actor, workspace.project, OPERATE, what="stop the set-up of a workspace")
    found = setups.under_way(workspace)
    return found is not None and setups.end(found, State.STOPPED, f"Stopped by {actor}.")


def _fault(workspace: Workspace, setup_command: str, test_command: str, variables: Mapping[str, str]) -> str:
    if len(setup_command) > LONGEST_COMMAND or len(test_command) > LONGEST_TESTS:
        return f"A set-up has at most {LONGEST_COMMAND:,} characters, a test command {LONGEST_TESTS:,}."
    if "\0" in setup_command + test_command or "\n" in test_command:
        return "A command is text without a NUL, and a test command is one line."
    if why := environment.fault(variables):
        return why
    if known().is_in([setup_command, test_command]):
        return LEAVE_OUT
    if known().is_in(variables):
        return f"{LEAVE_OUT} {NAME_IT}"
    return IN_PLACE if setup_command and not workspace.copy_for_each_run else ""
