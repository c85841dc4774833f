"""Workspaces whose source is a commit of a repository, on a server or in a folder: what is fetched, what a run gets,
and whether results may be pushed to the server (SPEC I7, ADR 0068, ADR 0075)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.utils import timezone

from loops.engine.text.truncation import shortened
from loops.llm.endpoints.keys import NO_KEYS, OF_PROVIDERS
from loops.models import Run, Setup, Workspace
from loops.printable.text import printable
from loops.services import audit
from loops.tools.sandbox.network.hosts import Host, host
from loops.tools.sandbox.safe_paths import PathRefused
from loops.workspaces import local_repository, setups
from loops.workspaces.folder_copy import WorkspaceElsewhere
from loops.workspaces.git.repository import Unusable

FRESH = timedelta(minutes=1)
"""A run takes what was fetched at most that long before its task was submitted."""
NAME_CHARS = 60
TOKENS = ("git_token_env", "git_push_token_env")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,99}")
_PORTS = {"https": 443, "http": 80}
_NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|[/.]$|/\.|\.lock(/|$)|^@$")
ADDRESS = "Write the address of a repository, such as https://example.com/team/shop.git."
NO_CREDENTIALS = "No name, password or token in the address: name the variable that holds the token."
IN_CLEAR = "A token goes over https alone: http would send it for everybody to read."
NO_BRANCH = "This is not the name of a branch or tag, nor a commit."
NO_VARIABLE = "Give the name of a variable of the worker, like SHOP_TOKEN, not the token, and none of AgentOps' own."
NOT_BOTH = "A workspace has a folder or a repository, not both."
COPIES_ONLY = "A repository on a server cannot be changed in place: let runs work on copies."
NEEDS_ADDRESS = "A token is for the address of a repository: give that as well."
NEEDS_REPOSITORY = "A branch, tag or commit needs a repository: give its folder or its address."
NOT_IN_PLACE = (
    "Runs work on copies of a branch, tag or commit. To let them work in the folder itself, with what is checked out "
    "there, leave that empty."
)
MOST_PATH = 450
TOO_LONG = f"With a branch, tag or commit a path has at most {MOST_PATH} characters."
ONLY_A_SUPERUSER = "Which repository is fetched, and with which tokens, is for a superuser to say."
NOT_ALLOWED = "its repository was not allowed: a superuser has to save it under Admin > Workspaces"
TAKE_THE_PATCH = "Its source is a repository on a server: push the result there as a branch, or take the patch."
NOT_PUSHED_TO = (
    "Results are not pushed to this repository. A superuser can allow it under Admin > Workspaces, by naming the "
    "variable of a token that may write. Until then take the patch, or push a branch with it yourself."
)
ANOTHER_SOURCE = "The workspace has another source since the run began. Its patch can be downloaded."
State, Kind = Setup.State, Setup.Kind


def faults(row: Workspace) -> dict[str, str]:
    """What is wrong with a repository as people stated it, by field."""
    found = {}
    if row.git_ref and _NO_REF.search(row.git_ref):
        found["git_ref"] = NO_BRANCH
    if not row.git_url:
        return found | _faults_without_address(row)
    if row.path:
        found["git_url"] = NOT_BOTH
    elif said := _fault_of_address(row.git_url, with_token=any(getattr(row, name) for name in TOKENS)):
        found["git_url"] = said
    if not row.copy_for_each_run:
        found["copy_for_each_run"] = COPIES_ONLY
    found |= {name: NO_VARIABLE for name in TOKENS if (stated := getattr(row, name)) and not _is_a_variable(stated)}
    return found


def _faults_without_address(row: Workspace) -> dict[str, str]:
    found = {name: NEEDS_ADDRESS for name in TOKENS if getattr(row, name)}
    if row.git_ref and not row.path:
        found["git_ref"] = NEEDS_REPOSITORY
    elif row.git_ref and not row.copy_for_each_run:
        found["copy_for_each_run"] = NOT_IN_PLACE
    elif row.git_ref and len(row.path) > MOST_PATH:
        found["path"] = TOO_LONG
    return found


def faults_here(row: Workspace) -> dict[str, str]:
    """Why the commit of a folder's repository could not be fetched now, by field; {} where nothing keeps it, or where
    this machine cannot tell."""
    if not row.is_fetched or row.git_url:
        return {}
    try:
        local_repository.commit_of(row.path, row.git_ref)
    except local_repository.NoSuchCommit as error:
        return {"git_ref": error.why}
    except Unusable as error:
        return {"path": error.why}
    except PathRefused as error:
        return {"path": f"The repository in the folder cannot be read: {printable(str(error))}."}
    except OSError:
        return {}
    return {}


def _is_a_variable(name: str) -> bool:
    return bool(_VARIABLE.fullmatch(name)) and not NO_KEYS.fullmatch(name) and name not in OF_PROVIDERS


def _fault_of_address(url: str, *, with_token: bool) -> str:
    try:
        parts = urlsplit(url)
        place = host_of(url)
    except ValueError:
        return ADDRESS
    if "@" in parts.netloc:
        return NO_CREDENTIALS
    has_odd = any(not "!" <= sign <= "~" or sign in "\\\"'<>`" for sign in url)
    if parts.scheme not in _PORTS or not parts.path.strip("/") or parts.query or parts.fragment or has_odd:
        return ADDRESS
    return IN_CLEAR if with_token and parts.scheme == "http" and not place.is_of_this_machine else ""


def host_of(url: str) -> Host:
    """Whom a fetch reaches, and nobody else. Raises ValueError."""
    parts = urlsplit(url)
    name, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    return host(f"[{name}]:{port}" if ":" in name else f"{name}:{port}")


def why_closed(workspace: Workspace) -> str:
    """Why it is not fetched, for people; "" when it may be. Asked again right before: rows come by other doors too. Who
    may use a folder is asked elsewhere."""
    if workspace.git_url and not workspace.may_be_fetched:
        return NOT_ALLOWED
    return " ".join(faults(workspace).values())


def why_not_pushed_to(workspace: Workspace | None, url: str) -> str:
    """Why no result of a run that began with ``url`` is pushed, for people; "" when one may be."""
    if workspace is None or workspace.git_url != url:
        return ANOTHER_SOURCE
    return "" if workspace.may_be_pushed_to and not faults(workspace) else NOT_PUSHED_TO


def allow(actor: Any, workspace: Workspace) -> None:
    """Let it be fetched from its address as it is, with its tokens, and pushed to where one is for that. Superusers
    only."""
    if not actor.is_superuser:
        raise PermissionError("only a superuser lets a repository be fetched")
    workspace.git_for, workspace.git_by, workspace.git_at = workspace.what_is_fetched, actor, timezone.now()
    workspace.save()
    tokens = {"token": workspace.git_token_env, "push_token": workspace.git_push_token_env}
    detail = {"workspace": workspace.name, "url": workspace.git_url, **tokens}
    audit.record("workspace.source", actor=actor, project=workspace.project, detail=detail)


def fetched(workspace: Workspace) -> Setup | None:
    """The latest that succeeded, of the branch, tag or commit that is stated now."""
    return _fetches(workspace).filter(state=State.READY).first()


def _fetches(workspace: Workspace) -> Any:
    return Setup.objects.filter(workspace=workspace, kind=Kind.FETCH, command=setups.words_of_fetch(workspace))


def order(workspace: Workspace, actor: Any = None) -> Setup | None:
    """Have a worker fetch it; None where it, or the set-up, is under way."""
    if setups.under_way(workspace):
        return None
    return setups.order(workspace, actor=actor, kind=Kind.FETCH)


def ready(workspace: Workspace, run: Run | None = None) -> Path:
    """The folder with what was fetched, not long before ``run`` was submitted. Raises WorkspaceElsewhere while there is
    none, and orders it; raises WorkspaceUnusable where that failed since."""
    found, name = fetched(workspace), shortened(workspace.name, NAME_CHARS)
    is_fresh = found is not None and (run is None or _is_fresh(found, run.task.created_at, workspace))
    if found is not None and is_fresh and setups.is_here(found):
        return setups.folder(found)
    if (other := setups.under_way(workspace)) is not None:
        raise WorkspaceElsewhere(f"The {other.get_kind_display().lower()} of {name} is under way")
    if run is not None:
        setups.refuse_what_failed(_fetches(workspace), run, f"The repository of workspace {name} was not fetched")
    order(workspace)
    raise WorkspaceElsewhere(f"The repository of {name} is being fetched")


def _is_fresh(found: Setup, submitted: datetime, workspace: Workspace) -> bool:
    """A whole id is one commit for ever; a branch moves, and so may a tag. Whoever commits in a folder submits a moment
    later, so there it is looked whether it moved."""
    if COMMIT.fullmatch(workspace.git_ref):
        return True
    if workspace.git_url:
        return found.ordered_at > submitted - FRESH
    return found.ordered_at > submitted or found.key == _now(workspace)


def _now(workspace: Workspace) -> str:
    try:
        return local_repository.commit_of(workspace.path, workspace.git_ref)
    except (Unusable, PathRefused, OSError):
        return ""  # the fetch says why


def looked_at(workspace: Workspace) -> str:
    """The folder that shows what runs get: the latest that was fetched, or "" before the first; else its own."""
    if not workspace.is_fetched:
        return workspace.path
    found = fetched(workspace)
    return str(setups.folder(found)) if found is not None else ""


def origin(workspace: Workspace, folder: Path) -> str:
    """What ``folder`` is a copy of: a folder, or a repository and its commit."""
    return f"{workspace.source}@{commit_in(folder)}" if workspace.is_fetched else workspace.path


def commit_of(origin: str) -> tuple[str, str]:
    """The folder or address in an ``origin``, and the commit; "" for that of a folder as it lay."""
    source, _, commit = origin.rpartition("@")
    return (source, commit) if source and COMMIT.fullmatch(commit) else (origin, "")


def commit_in(folder: Path) -> str:
    """The commit that a folder was fetched at; "" where none is named. Nothing of git is run, no link is followed."""
    with suppress(OSError):
        top = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            git = os.open(".git", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
        finally:
            os.close(top)
        try:
            head = os.open("HEAD", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=git)
        finally:
            os.close(git)
        with os.fdopen(head, "rb") as file:
            found = file.read(100).decode("ascii", "replace").strip()
        return found if COMMIT.fullmatch(found) else ""
    return ""
