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
from loops.runs.composition import folder_refusal, refusing, roots, run_folders, shortened
from loops.services import audit
from loops.storage import journal
from loops.tools.sandbox.command import ENVIRONMENT
from loops.tools.workspace import SKIPPED
from loops.tools.workspace_roots import ThroughALink, nested, plain
from loops.workspaces import permissions, snapshots

MAX_BYTES = 2 * 1024**3
MAX_FILES = 200_000
CHUNK = 1024 * 1024
REFUSED = "workspace.refused"


class WorkspaceUnusable(Exception):
    """The folder cannot be used for a run; the message says what is wrong with it."""


class WorkspaceElsewhere(Exception):
    """Nothing is wrong with the run: it waits for its folder, which is not on this machine or which nobody has allowed
    yet, and does not fail."""


def missing(path: str) -> str:
    """Why a worker here cannot go on in the folder at ``path``, for people; "" where it is here."""
    return "" if not path or Path(path).is_dir() else _not_here(path)


def _not_here(path: str) -> str:
    return f"{shortened(path)} is not on worker {socket.gethostname()[:40]}"


def refusal(workspace: Workspace) -> str:
    """Why no task may name the workspace, for people; "" when one may."""
    return closed(workspace) or beside(workspace)


def beside(workspace: Workspace) -> str:
    """Why a workspace that is used in place waits for another of its project, which lies in it or around it, or ""."""
    if workspace.copy_for_each_run or not workspace.path:
        return ""
    rows = Workspace.objects.filter(project=workspace.project_id, copy_for_each_run=False).exclude(pk=workspace.pk)
    return nested(workspace.name, workspace.path, rows.values_list("name", "path"))


def closed(workspace: Workspace) -> str:
    """Why the folder is not open to the project, whatever else it uses; "" when it is."""
    if not workspace.path:
        return ""
    path, in_place = plain(workspace.path), not workspace.copy_for_each_run
    allowed = bool(workspace.allowed_by_id) and workspace.allowed_path == path
    allowed = allowed and (workspace.allowed_in_place or not in_place)
    return folder_refusal(workspace.project.slug, path, in_place=in_place, allowed=allowed)


def refusal_of(run: Run) -> str:
    """Why the run may not go on in the folder that it has; "" when it may."""
    return refusing(run, journal.raw_connection())(run.workspace_path)


def obstacle(workspace: Workspace) -> str:
    """What keeps runs out of a workspace that lies on this machine, for people; "" when nothing is known to."""
    path = Path(workspace.path)
    if not path.is_absolute():
        return ""
    in_place = not workspace.copy_for_each_run
    said = refusal(workspace) or permissions.lacking(path, change=in_place)
    return said or (permissions.commands_lacking(path) if in_place else "")


@dataclass(frozen=True, slots=True)
class Where:
    """The folder with what a run changed: ``own`` is one of its own, ``source`` what that is a copy of, or ""."""

    path: str
    own: bool
    source: str


def where(run: Run) -> Where:
    """Nothing is looked at: the folder may be on another machine."""
    workspace, own = run.task.workspace, Path(run.workspace_path).name == str(run.pk)
    source = run.copied_from or (workspace.path if workspace is not None else "")
    return Where(run.workspace_path, own, plain(source) if own and source else "")


def prepare(run: Run) -> str:
    """Absolute path of the run's folder. Made at the first call; later calls, by any worker, find it again."""
    workspace = run.task.workspace
    if workspace is not None and workspace.path and not workspace.copy_for_each_run:
        return _remember(run, _existing(workspace, run))
    folder = root() / str(run.pk)
    if not folder.is_dir():
        _make(folder, lambda draft: _fill(draft, workspace, run))
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
    if workspace.path:
        _Copy(_existing(workspace, None), target).run()


def copy_present(run: Run, target: Path) -> None:
    """Fill the empty folder ``target`` with what the folder of ``run`` holds now."""
    _Copy(_present(run), target).run()


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
    if said := refusal_of(run):
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
                _Copy(source / here / name, target / here / name).run()
        found.update(unkept)
    return sorted(found)


def _fill(draft: Path, workspace: Workspace | None, run: Run) -> None:
    if workspace is not None and workspace.path:
        _Copy(_existing(workspace, run), draft).run()


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


def _existing(workspace: Workspace, run: Run | None) -> Path:
    path = Path(workspace.path)
    if not path.is_absolute():
        raise WorkspaceUnusable(f"The path of workspace {workspace.name} is not absolute: {workspace.path}")
    if said := refusal(workspace):
        if run is not None:
            _record_refusal(run, workspace, said)
        raise WorkspaceElsewhere(said)
    if said := permissions.lacking(path, change=not workspace.copy_for_each_run):
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
        detail = {"path": workspace.path, "workspace": workspace.name, "why": why}
        audit.record(REFUSED, actor=None, project=run.project, run=run, detail=detail)


def _remember(run: Run, folder: Path) -> str:
    path = str(folder)
    if run.workspace_path != path:
        workspace = run.task.workspace
        run.workspace_path, run.copied_from = path, workspace.path if workspace is not None else ""
        Run.objects.filter(pk=run.pk).update(workspace_path=path, copied_from=run.copied_from)
    return path


def _refused(error: OSError) -> None:
    """A folder that vanished is no part of the copy; one that may not be read must not be missing without a word."""
    if isinstance(error, PermissionError):
        raise error


class _Copy:
    """Copies a tree by descriptor from the first name of its path on, so that a link swapped in while it runs is not
    followed either."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.bytes = self.files = 0
        self.links: list[Path] = []

    def run(self) -> None:
        try:
            self._walk()
        except ThroughALink as error:
            raise WorkspaceUnusable(str(error)) from error
        except PermissionError as error:
            raise WorkspaceUnusable(permissions.unreadable(self.source, str(error.filename))) from error

    def _walk(self) -> None:
        with roots().opened(str(self.source)) as top:
            self._walk_from(top)
        self._refuse_ways_out()
        self._let_scripts_find_their_python()

    def _walk_from(self, top: int) -> None:
        for folder, folders, files, descriptor in os.fwalk(".", dir_fd=top, onerror=_refused, follow_symlinks=False):
            here = Path(folder)
            for name in folders:
                self._folder(here / name, name, descriptor)
            folders[:] = [name for name in folders if not (self.target / here / name).is_symlink()]
            for name in files:
                self._file(here / name, name, descriptor)

    def _folder(self, place: Path, name: str, parent: int) -> None:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            self._link(place, name, parent)
        else:
            (self.target / place).mkdir()

    def _file(self, place: Path, name: str, parent: int) -> None:
        self.files += 1
        if self.files > MAX_FILES:
            raise WorkspaceUnusable(f"The workspace has more than {MAX_FILES:,} files.")
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            self._link(place, name, parent)
        elif stat.S_ISREG(found.st_mode):
            self._content(place, name, parent)
        else:
            raise WorkspaceUnusable(f"{place} is no ordinary file (a pipe, socket or device).")

    def _link(self, place: Path, name: str, parent: int) -> None:
        (self.target / place).symlink_to(os.readlink(name, dir_fd=parent))
        self.links.append(place)

    def _refuse_ways_out(self) -> None:
        """A link may lead out by way of another link, so they are followed to the end, in the copy and by name only."""
        inside = self.target.resolve()
        for place in self.links:
            link = self.target / place
            leads_to = link.readlink()
            if self._is_of_an_environment(link):
                continue  # to the machine's Python: commands find what their sandbox shows of it, and we follow none
            if leads_to.is_absolute() or not Path(os.path.realpath(link)).is_relative_to(inside):
                raise WorkspaceUnusable(f"The link {place} leads out of the workspace, to {leads_to}.")

    def _is_of_an_environment(self, link: Path) -> bool:
        """Does it lie in a virtual environment of Python (PEP 405)?"""
        above = [folder for folder in link.parents if folder.is_relative_to(self.target)]
        return any((folder / "pyvenv.cfg").is_file() for folder in above)

    def _let_scripts_find_their_python(self) -> None:
        """Installed programs name the interpreter by where the environment was made; commands have it on their path."""
        was = b"#!" + os.fsencode(self.source / ENVIRONMENT / "bin") + b"/"
        folder = self.target / ENVIRONMENT / "bin"
        if not folder.is_dir() or folder.is_symlink() or folder.parent.is_symlink():
            return
        for script in folder.iterdir():
            if not script.is_symlink() and script.is_file() and script.stat().st_size <= CHUNK:
                data = script.read_bytes()
                if data.startswith(was):
                    script.write_bytes(b"#!/usr/bin/env " + data.removeprefix(was))

    def _content(self, place: Path, name: str, parent: int) -> None:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(source, "rb") as reader, (self.target / place).open("xb") as writer:
            while chunk := reader.read(CHUNK):
                self.bytes += len(chunk)
                if self.bytes > MAX_BYTES:
                    raise WorkspaceUnusable(f"The workspace is larger than {MAX_BYTES // 1024**2:,} MB.")
                writer.write(chunk)
            os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(source).st_mode) & 0o777 | 0o600)
