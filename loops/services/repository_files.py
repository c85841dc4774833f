"""The `agentops.toml` of a workspace: seen, accepted by its SHA-256, declined, dropped (SPEC X2, I7, ADR 0070)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.utils import timezone

from loops.models import Run, Workspace
from loops.querysets import ADMINISTER
from loops.runs.composition import roots
from loops.services import access, audit, setups
from loops.services.people import NotPossible
from loops.workspaces import copies, repository_file, sources
from loops.workspaces.repository_file import NAME, Declared, Unusable

ACCEPT = f"accept the {NAME} of a workspace"
ALLOW = "say which hosts a set-up may reach"
ANOTHER = f"{NAME} is not what you looked at any more. Look at it again."
NOTHING = f"There is no {NAME} to decide about."
NOT_ACCEPTED = f"No {NAME} was accepted."
UNUSED = "workspace.toml_unused"
FIELDS = ("toml_text", "toml_by", "toml_at", "toml_declined", "criteria", "protected")


class State(StrEnum):
    NONE = "none"
    ELSEWHERE = "elsewhere"
    NEW = "new"
    ACCEPTED = "accepted"
    CHANGED = "changed"
    DECLINED = "declined"
    GONE = "gone"
    UNUSABLE = "unusable"


OPEN = (State.NEW, State.CHANGED)
"""Somebody has to decide."""


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """What lies in the folder now (``found``), beside what was accepted. ``fault`` says why it cannot be used."""

    workspace: Workspace
    found: Declared | None = None
    fault: str = ""
    is_here: bool = True

    @property
    def state(self) -> State:
        accepted = self.workspace.toml_by_id is not None
        if self.fault:
            return State.UNUSABLE
        if not self.is_here:
            return State.ELSEWHERE
        if self.found is None or not (accepted or any(self.found.lines())):
            return State.GONE if accepted else State.NONE
        if accepted and self.found.text == self.workspace.toml_text:
            return State.ACCEPTED
        if self.found.sha256 == self.workspace.toml_declined:
            return State.DECLINED
        return State.CHANGED if accepted else State.NEW

    @property
    def is_open(self) -> bool:
        """Does it ask somebody to decide?"""
        return self.state in OPEN

    @property
    def said(self) -> str:
        """How it stands, in a sentence or two; "" where there is nothing to say."""
        row = self.workspace
        who = f"{row.toml_by} accepted it on {row.toml_at:%Y-%m-%d}" if row.toml_by and row.toml_at else ""
        holds = f"What {row.toml_by} accepted holds." if who else "Nothing of it is used."
        return {
            State.NONE: "",
            State.ELSEWHERE: f"{who}. Whether it changed since cannot be seen on this machine." if who else "",
            State.NEW: f"Nobody accepted {NAME} yet. {holds} An admin can accept it.",
            State.ACCEPTED: f"{NAME} is used: {who}.",
            State.CHANGED: f"{NAME} changed since {who}. {holds} An admin can accept the change.",
            State.DECLINED: f"{NAME} was declined as it is now. {holds}",
            State.GONE: f"{NAME} is gone since {who}. {holds}",
            State.UNUSABLE: f"{NAME} cannot be used. {self.fault} {holds}",
        }[self.state]

    @property
    def diff(self) -> str:
        """From what was accepted to what is there, as a unified diff; "" where nothing differs."""
        if self.found is None:
            return ""
        parts = (text.split("\n") if text else [] for text in (self.workspace.toml_text, self.found.text))
        return "\n".join(difflib.unified_diff(*parts, f"a/{NAME}", f"b/{NAME}", lineterm=""))

    @property
    def lines(self) -> list[tuple[str, str]]:
        """(what, value) of what a person decides about, else of what was accepted."""
        if self.found is not None:
            return list(self.found.lines())
        accepted = accepted_in(self.workspace)
        return list(accepted.lines()) if accepted is not None else []


def look(workspace: Workspace) -> RepositoryFile:
    """How it stands now. Raises nothing, and changes nothing."""
    folder = sources.looked_at(workspace)
    if not folder or copies.why_closed(workspace):
        return RepositoryFile(workspace, is_here=False)
    try:
        with roots().opened(folder) as top:
            return RepositoryFile(workspace, repository_file.read(top))
    except Unusable as error:
        return RepositoryFile(workspace, fault=str(error))
    except OSError:
        return RepositoryFile(workspace, is_here=False)


def accepted_in(workspace: Workspace) -> Declared | None:
    """What was accepted; None where nothing was, or where it has another shape in this version."""
    try:
        return repository_file.parse(workspace.toml_text.encode()) if workspace.toml_by_id is not None else None
    except Unusable:
        return None


def accept(*, actor: Any, workspace: Workspace, sha256: str, allow: bool = False) -> list[str]:
    """Use the content with this hash, and no other. ``allow``: a superuser lets its set-up reach the hosts that it
    names. Returns what they should know of it. Raises NotAllowed or NotPossible."""
    access.require(actor, workspace.project, ADMINISTER, what=ACCEPT)
    if allow:
        access.require_superuser(actor, workspace.project, what=ALLOW)
    standing = look(workspace)
    try:
        found = _seen(standing, sha256)
        with transaction.atomic():
            return _accept(actor, _locked(workspace), found, allow=allow)
    except NotPossible as refusal:
        detail = {"workspace": workspace.name, "why": str(refusal)}
        audit.record(UNUSED, actor=actor, project=workspace.project, detail=detail)
        raise


def _accept(actor: Any, row: Workspace, found: Declared, *, allow: bool) -> list[str]:
    was = accepted_in(row) or Declared("")
    row.toml_text, row.toml_by, row.toml_at, row.toml_declined = found.text, actor, timezone.now(), ""
    row.criteria, row.protected = list(found.criteria), list(found.protected)
    row.save(update_fields=FIELDS)
    stated = setups.Stated(
        _merged(row.setup_command, was.command, found.command),
        _merged(row.test_command, was.tests, found.tests),
        hosts=list(found.hosts) if allow else None,
    )
    said = setups.state(actor=actor, workspace=row, stated=stated)
    detail = {"workspace": row.name, "sha256": found.sha256, "states": dict(_by_name(found)), "hosts": allow}
    audit.record("workspace.toml_accepted", actor=actor, project=row.project, detail=detail)
    if missing := [host for host in found.hosts if host not in row.granted_hosts]:
        said.append(f"Its set-up may not reach {', '.join(missing)} yet: that is for a superuser to say.")
    return said


def _merged(now: str, was: str, stated: str) -> str:
    """What the file states; what it does not stays as people stated it, but goes where the file had stated it."""
    return stated or ("" if was and now == was else now)


def _by_name(found: Declared) -> Iterator[tuple[str, list[str]]]:
    names = list(dict.fromkeys(what for what, _ in found.lines()))
    yield from ((name, [value for what, value in found.lines() if what == name]) for name in names)


def decline(*, actor: Any, workspace: Workspace, sha256: str) -> None:
    """Go on without the content with this hash, and ask about it no more. Raises NotAllowed or NotPossible."""
    access.require(actor, workspace.project, ADMINISTER, what=ACCEPT)
    found = _seen(look(workspace), sha256)
    with transaction.atomic():
        row = _locked(workspace)
        row.toml_declined = found.sha256
        row.save(update_fields=["toml_declined"])
        detail = {"workspace": row.name, "sha256": found.sha256}
        audit.record("workspace.toml_declined", actor=actor, project=row.project, detail=detail)


def drop(*, actor: Any, workspace: Workspace) -> None:
    """Take back that it is used: its criteria and protected files go, the commands stay as they are stated. Raises
    NotAllowed or NotPossible."""
    access.require(actor, workspace.project, ADMINISTER, what=ACCEPT)
    with transaction.atomic():
        row = _locked(workspace)
        if row.toml_by_id is None:
            raise NotPossible(NOT_ACCEPTED)
        row.toml_text, row.toml_by, row.toml_at, row.toml_declined = "", None, None, ""
        row.criteria, row.protected = [], []
        row.save(update_fields=FIELDS)
        audit.record("workspace.toml_dropped", actor=actor, project=row.project, detail={"workspace": row.name})


def unused(workspace: Workspace | None) -> str:
    """Why a run in it does not use its file as it is now; "" where it does, there is none, or somebody declined it."""
    if workspace is None or not workspace.source:
        return ""
    standing = look(workspace)
    return standing.said if standing.is_open or standing.fault else ""


def record_unused(run: Run, why: str) -> None:
    """For the audit log of a run."""
    workspace = run.task.workspace
    detail = {"workspace": workspace.name if workspace is not None else "", "why": why}
    audit.record(UNUSED, actor=run.task.created_by, run=run, detail=detail)


def _seen(standing: RepositoryFile, sha256: str) -> Declared:
    """The content that is there, if it is the one that a person looked at."""
    if standing.fault:
        raise NotPossible(standing.said)
    if standing.found is None:
        raise NotPossible(NOTHING)
    if standing.found.sha256 != sha256:
        raise NotPossible(ANOTHER)
    return standing.found


def _locked(workspace: Workspace) -> Workspace:
    row: Workspace = Workspace.objects.select_for_update().get(pk=workspace.pk)
    return row
