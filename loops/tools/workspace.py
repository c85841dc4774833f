"""What file tools may do in a workspace: read, write atomically, move, delete; all by descriptor (SPEC I7)."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from loops.tools.fence import Fence
from loops.tools.limits import Limits
from loops.tools.output import sha256_hex
from loops.tools.protected_paths import all_protected, protecting
from loops.tools.sandbox.namespaces.user import file_owner
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory, is_shut, kind, relative
from loops.tools.sandbox.workspace_guard import git_named, git_writes

CACHES = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
SKIPPED = CACHES | {".git", "node_modules", ".venv"}
_MEASURED: dict[tuple[int, int], tuple[float, int, int]] = {}
_MEASURE_EVERY_S = 5.0
_DEEPEST = 100
"""Folder levels. Deeper ones are not entered, and count as a full workspace so that nothing can be hidden there."""


class Workspace:
    """One opened workspace. One that AgentOps ``made`` belongs to the user of its commands: under a root worker
    ``owner`` (uid, gid) is given to new files (namespaces/user.py). In any other, files keep whose they are, and a new
    one is whose the folder is; no link on the way to it is followed.

    With an ``order`` it is a person's, into which that is carried out: no link is followed, the quota of agents does
    not count, and a file that is not whole yet has the order's name, so that whoever goes on with it finds it.

    In ``records`` is kept what stood here before the command that runs now (interrupted.py).

    Every method raises PathRefused for what is forbidden, OSError for what the disk refuses, and LeaseOver when a
    change comes after the end of the lease: each change is one system call, made inside the fence.
    """

    def __init__(
        self,
        root: str,
        limits: Limits,
        fence: Fence | None = None,
        *,
        made: bool = False,
        order: str = "",
        records: str = "",
    ) -> None:
        self.limits = limits
        self.records = records
        self.fence = fence or Fence()
        self.owner = file_owner() if made else None
        self.beneath = SafeDirectory(root, links=made, strict=bool(order))
        self.order = order

    def close(self) -> None:
        self.beneath.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: str) -> bytes:
        return self.beneath.read(path, self.limits.file_bytes)[0]

    def hash(self, path: str) -> str:
        """SHA-256 of a regular file, "" when nothing is there, "directory" for a directory."""
        status = self.beneath.stat(path)
        if status is None:
            return ""
        if stat.S_ISDIR(status.st_mode):
            return "directory"
        return sha256_hex(self.read(path))

    def check_read(self, path: str) -> None:
        """Refuse a path that leaves the workspace, through links as well; a missing one is fine."""
        with suppress(FileNotFoundError, NotADirectoryError), self.beneath.opened(path, os.O_PATH):
            pass

    def check_write(self, path: str) -> None:
        """Refuse what a write to ``path`` would be refused for, without changing anything."""
        name = relative(path)
        self._refuse_protected(name)
        parent = os.path.dirname(name)
        while parent and self.beneath.stat(parent) is None:
            parent = os.path.dirname(parent)
        with self.beneath.opened(parent or ".", os.O_PATH | os.O_DIRECTORY) as directory:
            below = name[len(parent) :].strip("/")
            real = self._real(directory, below)
            self._refuse_protected(real)
            self._refuse_for_git(real, git_writes.refusal(self.beneath, real))
            self._refuse_named(real)
        status = self.beneath.stat(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise PathRefused(f"{path!r} is a symbolic link; name the file it points to", escape=True)

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Replace or create a file in one step (temporary file, then rename); parents are made. Durable on return.

        ``mode`` None keeps the permissions of the file that is there.
        """
        if len(data) > self.limits.file_bytes:
            raise PathRefused(f"{len(data)} bytes are more than the limit of {self.limits.file_bytes} for one file")
        self.check_write(path)
        self._check_quota(len(data))
        with self._parent(path, make=True) as (directory, name):
            self._refuse_settings(self._real(directory, name), data)
            kept = self._writable_mode(directory, name)
            temporary = f".agentops-{self.order or secrets.token_hex(8)}.tmp"
            try:
                self._fill(directory, temporary, data, kept if mode is None else mode & 0o777, name)
                with self.fence.armed():
                    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException as error:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
                if isinstance(error, OSError):  # by the name that was asked for: the same failure always reads the same
                    raise OSError(error.errno, error.strerror, path) from error
                raise
            os.fsync(directory)

    def link(self, path: str, target: str) -> None:
        """Put back a symbolic link where nothing is; whoever follows it later stays beneath the workspace."""
        self.check_write(path)
        with self._parent(path, make=True) as (directory, name), self.fence.armed():
            os.symlink(target, name, dir_fd=directory)

    def make_directory(self, path: str) -> None:
        self.check_write(path)
        self._check_quota(0)
        with self._parent(f"{relative(path)}/x", make=True):
            pass

    def move(self, source: str, target: str) -> None:
        """Rename inside the workspace; the target must be free."""
        self.check_write(source)
        self.check_write(target)
        if self.beneath.stat(target) is not None:
            raise PathRefused(f"{target!r} exists already; delete it first")
        with (
            self._parent(source) as (from_directory, old),
            self._parent(target, make=True) as (to_directory, new),
        ):
            self._refuse_named(self._real(from_directory, old), parents=True)
            self._refuse_settings(self._real(from_directory, old), None)
            real = self._real(to_directory, new)
            self._refuse_for_git(real, git_writes.refusal(self.beneath, real, moved=True))
            with self.fence.armed():
                os.rename(old, new, src_dir_fd=from_directory, dst_dir_fd=to_directory)

    def delete(self, path: str) -> None:
        """Remove a file or an empty directory."""
        name = relative(path)
        self._refuse_protected(name)
        with self._parent(name) as (directory, last):
            real = self._real(directory, last)
            self._refuse_for_git(real, git_writes.refusal(self.beneath, real))
            self._refuse_named(real)
            self._refuse_settings(real, None)
            is_folder = stat.S_ISDIR(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode)
            with self.fence.armed():
                (os.rmdir if is_folder else os.unlink)(last, dir_fd=directory)

    def walk(
        self,
        path: str = ".",
        *,
        hidden: bool = False,
        unseen: Callable[[str], None] = lambda _: None,
        skips: Callable[[str, os.stat_result], bool] = lambda path, status: False,
    ) -> Iterator[tuple[str, os.stat_result]]:
        """(relative path, status) of everything below, links not followed, sorted, depth first.

        Without ``hidden`` folders that are never of interest (.git, node_modules, caches) are named, not entered.
        ``unseen`` is told of those that cannot be looked into, though a command might: too deep, or of ours and shut.
        What ``skips`` says yes to is neither named nor entered.
        """
        with self.beneath.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK) as directory:
            prefix = relative(path)
            yield from _walk(directory, "" if prefix == "." else f"{prefix}/", hidden, unseen, skips)

    def measure(self) -> tuple[int, int]:
        """(bytes, files) in use now; a sparse file counts with its full size."""
        total = files = 0
        for path, status in self.walk(hidden=True):
            files += 1 if path.count("/") < _DEEPEST else self.limits.workspace_files
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
            if files > self.limits.workspace_files:
                break
        return total, files

    def over_quota(self, unlinked: int = 0) -> str:
        """Why the workspace is over its quota, or "". ``unlinked``: bytes in files that have lost their names."""
        size, files = self.measure()
        size += unlinked
        if files > self.limits.workspace_files:
            return f"the workspace has more than {self.limits.workspace_files} files"
        if size > self.limits.workspace_bytes:
            return f"the workspace holds {size} bytes; its quota is {self.limits.workspace_bytes}"
        return ""

    def _check_quota(self, extra: int) -> None:
        if self.order:
            return
        status = os.fstat(self.beneath.fd)
        key = (status.st_dev, status.st_ino)
        at, size, files = _MEASURED.get(key, (float("-inf"), 0, 0))
        if time.monotonic() - at > _MEASURE_EVERY_S:
            at, (size, files) = time.monotonic(), self.measure()
        if size + extra > self.limits.workspace_bytes or files >= self.limits.workspace_files:
            raise PathRefused(f"workspace quota reached: {size} bytes in {files} files")
        if len(_MEASURED) > 1_000:
            _MEASURED.clear()
        _MEASURED[key] = (at, size + extra, files + 1)

    def _refuse_protected(self, path: str) -> None:
        if name := protecting(path, all_protected(self.limits.protected)):
            raise PathRefused(f"{path!r} is protected ({name}): only a person changes it")

    def _refuse_for_git(self, path: str, why: str) -> None:
        if why:
            raise PathRefused(f"{path!r} is protected: {why}: only a person changes that")

    def _refuse_named(self, path: str, *, parents: bool = False) -> None:
        """What the settings of a person's git name is run by it, as hooks are. ``parents``: nor is a folder around it
        moved away."""
        for one in git_named.named_above(self.beneath, path):
            if f"{path}/".startswith(f"{one}/") or (parents and one.startswith(f"{path}/")):
                self._refuse_for_git(path, f"settings of git name {one!r}")

    def _refuse_settings(self, path: str, data: bytes | None) -> None:
        self._refuse_for_git(path, git_writes.refusal_of_settings(self.beneath, path, data))

    def _real(self, directory: int, name: str) -> str:
        """The path of a name in an open folder, by no link."""
        return os.path.normpath(f"{self.beneath.real(directory)}/{name}")

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the parent directory, last name); the name is one component and never followed."""
        name = relative(path)
        if name == ".":
            raise PathRefused("the workspace itself cannot be the target")
        parent, last = os.path.split(name)
        if make and parent:
            self._make_parents(parent)
        with self.beneath.opened(parent or ".", os.O_RDONLY | os.O_DIRECTORY) as directory:
            self._refuse_protected(self._real(directory, last))
            yield directory, last

    def _make_parents(self, path: str) -> None:
        made = ""
        for part in path.split("/"):
            with self.beneath.opened(made or ".", os.O_RDONLY | os.O_DIRECTORY) as directory, suppress(FileExistsError):
                with self.fence.armed():
                    os.mkdir(part, 0o755, dir_fd=directory)
                if owner := self._owner_in(directory):
                    os.chown(part, *owner, dir_fd=directory, follow_symlinks=False)
            made = f"{made}/{part}".strip("/")

    def _writable_mode(self, directory: int, name: str) -> int:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return 0o644
        if not stat.S_ISREG(status.st_mode):
            raise PathRefused(f"{name!r} is {kind(status.st_mode)}, not a regular file")
        if status.st_nlink > 1:
            raise PathRefused(f"{name!r} has {status.st_nlink} hard links; writing it would change other files too")
        return stat.S_IMODE(status.st_mode) & 0o777

    def _owner_in(self, directory: int, name: str = "") -> tuple[int, int] | None:
        """Whose a new file there is, or the one that takes the place of ``name``; None where the kernel decides."""
        if self.owner or os.geteuid() != 0:
            return self.owner
        try:
            found = os.stat(name or ".", dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            found = os.fstat(directory)
        return found.st_uid, found.st_gid

    def _fill(self, directory: int, name: str, data: bytes, mode: int, replaced: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=directory)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if owner := self._owner_in(directory, replaced):
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)


def _walk(
    directory: int,
    prefix: str,
    hidden: bool,
    unseen: Callable[[str], None],
    skips: Callable[[str, os.stat_result], bool],
) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        if skips(f"{prefix}{name}", status):
            continue
        yield f"{prefix}{name}", status
        if not stat.S_ISDIR(status.st_mode) or (name in SKIPPED and not hidden):
            continue
        if prefix.count("/") >= _DEEPEST or is_shut(status):
            unseen(f"{prefix}{name}")
            continue
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except PermissionError:  # somebody else's: no command gets in either
            continue
        except OSError:
            unseen(f"{prefix}{name}")
            continue
        try:
            yield from _walk(inner, f"{prefix}{name}/", hidden, unseen, skips)
        finally:
            os.close(inner)
