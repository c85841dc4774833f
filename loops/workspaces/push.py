"""A result as a commit on a new branch of the server that its repository was fetched from (SPEC X3, I7, ADR 0075).

The commit is made as in a person's folder, in a scratch repository that has objects and nothing else: no settings, no
hooks. Objects fit their names, so it does not matter whose copy they come from.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from loops.models import Delivery, Fork, Run, Setup
from loops.runs.composition import sandbox_level
from loops.tools.limits import Limits
from loops.tools.sandbox.capability import FULL
from loops.tools.sandbox.runner import NO_NETWORK
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import Workspace
from loops.workspaces import commits, copies, fetch_command, networked, patch, push_command, setups, sources
from loops.workspaces.delivery import Busy
from loops.workspaces.fetch_command import LIMITS
from loops.workspaces.folder_copy import Copy, WorkspaceElsewhere, WorkspaceUnusable
from loops.workspaces.git import repository as git

NAME = "push-"
SUFFIXES = ("", "-repository", "-network")
"""Of the folders of one order: what holds its lock, the scratch repository, and the socket of its proxy."""
GONE = "The commit {} that the run began with is not on this machine any more. Take the patch."
TAKEN = "The server has a branch {} already, with something else. Rename or delete it there, then push again."
_SETTINGS = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
_SHALLOW = ".git/shallow"
_MOST_SHALLOW = 1024 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}")


def source(run: Run) -> tuple[str, str]:
    """The address of the repository that the run, or the one that it was forked from, began with, and the commit; ""
    for one that began otherwise."""
    while (fork := Fork.objects.filter(run=run).select_related("parent").first()) is not None:
        run = fork.parent  # its own folder may have a commit of an agent at HEAD
    url, _, commit = run.copied_from.rpartition("@")
    return (url, commit) if "://" in url and sources.COMMIT.fullmatch(commit) else ("", "")


def why_not(run: Run) -> str:
    """Why its result is not pushed anywhere, for people; "" when it may be."""
    url, _ = source(run)
    return sources.why_not_pushed_to(run.task.workspace, url) if url else "Its source is no repository on a server."


def plan(found: patch.Portable, run: Run) -> commits.Plan:
    """What would be pushed now. Raises Unusable, PathRefused or OSError."""
    url, commit = source(run)
    with _holding(run) as folder:
        return replace(commits.plan(found, str(folder), run, after=commit), folder=url)


@contextmanager
def _holding(run: Run) -> Iterator[Path]:
    """A folder here whose repository has the commit: as it was fetched, or else the run's own copy. Raises Unusable."""
    _, commit = source(run)
    if not _COMMIT.fullmatch(commit):
        raise git.Unusable(git.FORMAT.format("its objects by sha256"), git.TAKE_THE_PATCH)
    rows = Setup.objects.filter(workspace=run.task.workspace, kind=Setup.Kind.FETCH, key=commit)
    kept = [setups.folder(row) for row in rows.filter(state=Setup.State.READY)]
    own = [Path(run.workspace_path)] if kept else []  # what was never fetched is a commit of an agent
    for folder in (*kept, *own):
        if folder.is_absolute() and folder.is_dir() and _has(folder, commit):
            yield folder
            return
    raise git.Unusable(GONE.format(commit[:12]))


def _has(folder: Path, commit: str) -> bool:
    with suppress(git.Unusable, PathRefused, OSError), ExitStack() as stack:
        workspace = stack.enter_context(Workspace(str(folder), LIMITS, order="look"))
        return bool(stack.enter_context(git.opened(workspace.beneath)).tree_of(commit))
    return False


@contextmanager
def scratch(order: Delivery) -> Iterator[Workspace]:
    """The repository that the commit is made in, for one worker at a time, until it lets go or dies. Raises Busy,
    Unusable, PathRefused or OSError."""
    lock, repository, network = _places(order)
    lock.mkdir(mode=0o700, exist_ok=True)
    with _locked(lock):
        for place in (repository, network):
            shutil.rmtree(place, ignore_errors=True)  # of a worker that died
            place.mkdir(mode=0o700)
        network.chmod(0o755)
        try:
            _fill(repository, order.run)
            with Workspace(str(repository), _limits(order.run), order=order.pk.hex) as workspace:
                yield workspace
        finally:
            for place in (repository, network, lock):
                shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises Busy where another worker has it, or has just taken it away."""
    with ExitStack() as stack:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), folder.stat()):
                raise Busy
        except (BlockingIOError, FileNotFoundError) as error:
            raise Busy from error
        yield


def _fill(target: Path, run: Run) -> None:
    """Objects, and where history ends. Raises Unusable."""
    _, commit = source(run)
    for name in ("objects", "refs/heads"):
        (target / ".git" / name).mkdir(mode=0o700, parents=True)
    (target / ".git/config").write_text(_SETTINGS)
    (target / ".git/HEAD").write_text(f"{commit}\n")
    with _holding(run) as folder:
        try:
            Copy(folder / git.OBJECTS, target / git.OBJECTS, without={"info"}).run()  # which borrows from elsewhere
        except (WorkspaceUnusable, WorkspaceElsewhere) as error:
            raise git.Unusable(str(error)) from error
        with Workspace(str(folder), LIMITS, order="look") as workspace, git.opened(workspace.beneath) as repository:
            ends = (name for name in repository.texts(_SHALLOW, _MOST_SHALLOW).split() if _COMMIT.fullmatch(name))
            (target / _SHALLOW).write_text("".join(f"{name}\n" for name in ends))


def _limits(run: Run) -> Limits:
    """Of what git writes: as when it fetched this."""
    workspace = run.task.workspace
    return fetch_command.limits_of(workspace) if workspace else LIMITS


def send(order: Delivery, name: str) -> tuple[str, str]:
    """(the commit that the branch is on the server, why it is not or ""). Done again it comes to the same. It is
    ``name``, or one that the same result was pushed as before."""
    run, rows, workspace = order.run, order.plan or {}, order.run.task.workspace
    if workspace is None or (why := why_not(run)):
        return "", why if workspace is not None else sources.ANOTHER_SOURCE
    if sandbox_level().level < FULL:
        return "", f"A push reaches the server, but {NO_NETWORK}."
    log, (_, repository, network) = networked.Log(), _places(order)
    ref, granted = f"{git.BRANCHES}/{rows['branch']}", [str(sources.host_of(workspace.git_url))]
    try:
        job = push_command.job(workspace, ref, name, str(network), f"push {order.pk}")
    except ValueError as error:
        return "", f"{error} {push_command.AGAIN}"
    finished = networked.run(repository, granted, log, job, _limits(run)).finished
    shown = log.shown()
    if finished.exit_code == 0:
        return name, ""
    if there := push_command.standing(shown["log"]):
        return (there, "") if _is_the_same(order, there) else ("", TAKEN.format(rows["branch"]))
    return "", push_command.reason(workspace, shown["log"], shown["requests"], finished.killed)


def _is_the_same(order: Delivery, name: str) -> bool:
    """Is it the commit of an earlier order for the same result? Only when it was ordered differs then."""
    rows = order.plan or {}
    earlier = Delivery.objects.filter(run=order.run, kind=Delivery.Kind.PUSH, plan__tried=name)
    return earlier.filter(plan__tree=rows["tree"], plan__parent=rows["parent"]).exists()


def _places(order: Delivery) -> list[Path]:
    return [copies.made_root() / f"{NAME}{order.pk}{suffix}" for suffix in SUFFIXES]
