"""The folder a run works in: its own copy of the workspace, or a fresh empty one. Links are copied, never followed."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from loops.models import AuditEvent, Fact, Fork, Run, Workspace
from loops.runs.composition import refusing, run_folders, shortened, why_folder_refused
from loops.services import audit
from loops.storage import journal
from loops.tools.workspace import SKIPPED
from loops.tools.workspace_roots import plain, why_nested
from loops.workspaces import permissions, setups, snapshots, sources
from loops.workspaces.folder_copy import Copy, WorkspaceElsewhere, WorkspaceUnusable

REFUSED = "workspace.refused"


def why_missing(path: str) -> str:
    """Why a worker here cannot go on in the folder at ``path``, for people; "" where it is here."""
    return "" if not path or Path(path).is_dir() else _not_here(path)


def _not_here(path: str) -> str:
    return f"{shortened(path)} is not on worker {socket.gethostname()[:40]}"


def why_refused(workspace: Workspace) -> str:
    """Why no task may name the workspace, for people; "" when one may."""
    return why_closed(workspace) or why_overlapping(workspace)


def why_overlapping(workspace: Workspace) -> str:
    """Why a workspace that is used in place waits for another of its project, which lies in it or around it, or ""."""
    if workspace.copy_for_each_run or not workspace.path:
        return ""
    rows = Workspace.objects.filter(project=workspace.project_id, copy_for_each_run=False).exclude(pk=workspace.pk)
    return why_nested(workspace.name, workspace.path, rows.values_list("name", "path"))


def why_closed(workspace: Workspace) -> str:
    """Why the folder is not open to the project, whatever else it uses; "" when it is."""
    if workspace.git_url or (workspace.git_ref and sources.why_closed(workspace)):
        return sources.why_closed(workspace)
    if not workspace.path:
        return ""
    path, in_place = plain(workspace.path), not workspace.copy_for_each_run
    allowed = bool(workspace.allowed_by_id) and workspace.allowed_path == path
    allowed = allowed and (workspace.allowed_in_place or not in_place)
    return why_folder_refused(workspace.project.slug, path, in_place=in_place, allowed=allowed)


def why_run_refused(run: Run) -> str:
    """Why the run may not go on in the folder that it has; "" when it may."""
    return refusing(run, journal.raw_connection())(run.workspace_path)


def why_unusable(workspace: Workspace) -> str:
    """What keeps runs out of a workspace that lies on this machine, for people; "" when nothing is known to."""
    path = Path(workspace.path)
    if not path.is_absolute():
        return ""
    in_place = not workspace.copy_for_each_run
    said = why_refused(workspace) or permissions.why_no_access(path, change=in_place)
    return said or (permissions.why_no_access_for_commands(path) if in_place else "")


@dataclass(frozen=True, slots=True)
class Where:
    """The folder with what a run changed: ``own`` is one of its own, ``source`` what that is a copy of, or "", and
    ``commit`` the one of that, or "" for what lay there."""

    path: str
    own: bool
    source: str
    commit: str = ""

    @property
    def is_of_a_server(self) -> bool:
        """Is there no folder that its result could go to?"""
        return "://" in self.source


def where(run: Run) -> Where:
    """Nothing is looked at: the folder may be on another machine."""
    workspace, own = run.task.workspace, Path(run.workspace_path).name == str(run.pk)
    path = workspace.path if workspace is not None else ""
    if not own or not (run.copied_from or path):
        return Where(run.workspace_path, own, "")
    if run.copied_from in ("", path):
        return Where(run.workspace_path, own, plain(path))
    source, commit = sources.commit_of(run.copied_from)
    return Where(run.workspace_path, own, plain(source), commit)


def prepare(run: Run) -> str:
    """Absolute path of the run's folder. Made at the first call; later calls, by any worker, find it again."""
    workspace = run.task.workspace
    if workspace is not None and workspace.path and not workspace.copy_for_each_run:
        return _remember(run, existing(workspace, run))
    folder = root() / str(run.pk)
    if not folder.is_dir():
        _make(folder, lambda draft: _fill(draft, workspace, run, folder))
    if folder.stat().st_mode & 0o077:  # made by an earlier version, or opened by a command
        folder.chmod(0o700)
    return _remember(run, folder)


def prepare_with(run: Run, fill: Callable[[Path], None]) -> bool:
    """Make a folder of the run's own with what ``fill`` puts into it; False when it was there already."""
    folder = root() / str(run.pk)
    made = not folder.is_dir()
    if made:
        _make(folder, fill)
    _remember(run, folder)
    return made


def fill_copy(workspace: Workspace, target: Path) -> None:
    """Fill the empty folder ``target`` with the folder of the workspace. Raises WorkspaceUnusable or -Elsewhere."""
    _fill(target, workspace, None, target)


def copy_present(run: Run, target: Path) -> None:
    """Fill the empty folder ``target`` with what the folder of ``run`` holds now."""
    Copy(_present(run), target).run()


def copy_at(run: Run, seq: int, target: Path) -> str | None:
    """Fill the empty folder ``target`` with what the folder of ``run`` held after its fact ``seq``. Returns the names
    of folders that nobody records and that are those of now, or ""; None, with ``target`` empty, when it was not kept.

    What a fork held before its own beginning is known to the run it came from, under the same number.
    """
    while (fork := Fork.objects.filter(run=run).select_related("parent").first()) and not _is_its_own(fork, seq):
        run, seq = fork.parent, min(seq, fork.seq)
    states = snapshots.states_at(run, seq)
    if states is None or not snapshots.fill(target, states):
        _empty(target)
        return None
    return ", ".join(_copy_unkept(run, target))


def root() -> Path:
    """Where the folders of all runs lie."""
    return Path(run_folders())


def made_root() -> Path:
    """The same, and there. Other users of the machine are kept out; the user of the sandbox passes through."""
    folder = root()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        settings.PATHS.close(folder)
    return folder


def _present(run: Run) -> Path:
    path = Path(run.workspace_path)
    if not path.is_absolute():
        raise WorkspaceUnusable(f"The folder of run {run.pk} is not known.")
    if said := why_run_refused(run):
        raise WorkspaceElsewhere(said)
    if not path.is_dir():
        raise WorkspaceElsewhere(_not_here(str(path)))
    return path


def _is_its_own(fork: Fork, seq: int) -> bool:
    return Fact.objects.filter(run_id=fork.run_id, kind="Forked", seq__gt=fork.seq, seq__lte=seq).exists()


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)


def _copy_unkept(run: Run, target: Path) -> list[str]:
    """Folders whose content nobody records (.git, node_modules, caches), as they are now, as far as they can be had."""
    source, found = Path(run.workspace_path), set()
    for folder, folders, _ in os.walk(source) if source.is_absolute() else ():
        here = Path(folder).relative_to(source)
        unkept = [name for name in folders if name in SKIPPED and not (source / here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in SKIPPED and (target / here / name).is_dir()]
        for name in unkept:
            (target / here / name).mkdir()
            with suppress(WorkspaceUnusable):
                Copy(source / here / name, target / here / name).run()
        found.update(unkept)
    return sorted(found)


def _fill(draft: Path, workspace: Workspace | None, run: Run | None, place: Path) -> None:
    """``place`` is where the folder will lie when commands run in it."""
    if workspace is None or not workspace.source:
        return
    source = existing(workspace, run)
    if workspace.setup_command:
        setup = setups.ready(workspace, source, run)
        fill_for_setup(source, draft)
        setups.lay(setup, draft, place)
    else:
        Copy(source, draft).run()


def fill_for_setup(source: Path, target: Path) -> None:
    """With the folder of a workspace, as its set-up finds it."""
    Copy(source, target, without=setups.INSTALLED).run()


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Copy beside the final place and rename: nobody ever sees half a copy, and of two makers the first wins."""
    made_root()
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700)
    try:
        fill(draft)
        try:
            draft.rename(folder)
        except OSError:  # an empty folder would have been replaced, a filled one is the other maker's
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def existing(workspace: Workspace, run: Run | None = None) -> Path:
    """The folder that ``run`` gets a copy of, or works in. Raises WorkspaceUnusable or -Elsewhere."""
    if not workspace.git_url and not Path(workspace.path).is_absolute():
        raise WorkspaceUnusable(f"The path of workspace {workspace.name} is not absolute: {workspace.path}")
    if said := why_refused(workspace):
        if run is not None:
            _record_refusal(run, workspace, said)
        raise WorkspaceElsewhere(said)
    found = Path() if workspace.git_url else folder_here(workspace)
    return sources.ready(workspace, run) if workspace.is_fetched else found


def folder_here(workspace: Workspace) -> Path:
    """The folder at its path, if AgentOps can use it on this machine. Raises WorkspaceUnusable or -Elsewhere."""
    path = Path(workspace.path)
    if said := permissions.why_no_access(path, change=not workspace.copy_for_each_run):
        raise WorkspaceUnusable(said)
    try:
        found = path.lstat()
    except FileNotFoundError as error:
        raise WorkspaceElsewhere(f"{_not_here(workspace.path)} (workspace {workspace.name[:40]})") from error
    except OSError as error:
        raise WorkspaceUnusable(f"The folder of workspace {workspace.name} cannot be read: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise WorkspaceUnusable(f"The path of workspace {workspace.name} is not a folder: {workspace.path}")
    return path


def _record_refusal(run: Run, workspace: Workspace, why: str) -> None:
    """Once: the run looks again every minute."""
    if not AuditEvent.objects.filter(run=run, kind=REFUSED).exists():
        detail = {"path": workspace.source, "workspace": workspace.name, "why": why}
        audit.record(REFUSED, actor=None, project=run.project, run=run, detail=detail)


def _remember(run: Run, folder: Path) -> str:
    path = str(folder)
    if run.workspace_path != path:
        workspace = run.task.workspace
        run.workspace_path, run.copied_from = path, _origin(run, workspace, folder)
        Run.objects.filter(pk=run.pk).update(workspace_path=path, copied_from=run.copied_from)
    return path


def _origin(run: Run, workspace: Workspace | None, folder: Path) -> str:
    """What ``folder`` is a copy of. That of a fork holds what another run made of it, other commits among that."""
    if workspace is None:
        return ""
    fork = Fork.objects.filter(run=run).select_related("parent").first() if workspace.is_fetched else None
    return fork.parent.copied_from if fork is not None else sources.origin(workspace, folder)
