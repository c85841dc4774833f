"""Back up a living installation: one snapshot of the database, then the files.

Files are read after the snapshot on purpose. A folder that is newer than its journal holds at most an effect whose
outcome is not known yet, which every resume verifies (SPEC J2); an older one would lack work that the journal claims.
"""

import os
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psycopg
from django.conf import settings
from django.db import connection

from agentops.embedded.root import service_user
from agentops.evidence import anchors
from agentops.ops import OpsError, archive, programs
from loops.workspaces import copies

Say = Callable[[str], None]
MADE_ANEW = frozenset(
    {"postgres", "valkey", "run", "log", "backups", "pycache", "up.lock", "pids.json", anchors.FOLDER}
)
"""What the state folder holds that a restored one does not need. The anchor goes into the manifest: the file would be
newer than the snapshot."""
IN_MEMORY = 1 << 23
COUNTED = ("loops_project", "loops_task", "agent_execution_history", "loops_fact", "loops_blob", "gates_gate")


def back_up(target: Path, say: Say = lambda line: None) -> archive.Manifest:
    """Write the archive ``target``. It appears when it is whole, readable by its owner only. Raises OpsError."""
    draft = target.with_name(f".{target.name}.partial")
    rights = nullcontext if target.is_relative_to(settings.PATHS.state) else service_user.as_caller
    try:
        with rights():
            target.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w+b") as stream:
            with ZipFile(stream, "w") as file:
                manifest = _write(archive.Writer(file), target, say)
            stream.flush()
            os.fsync(stream.fileno())
        with rights():
            draft.replace(target)
    except OSError as error:
        raise OpsError(f"the backup cannot be written: {error}") from error
    finally:
        with rights():
            draft.unlink(missing_ok=True)
    return manifest


def _write(writer: archive.Writer, target: Path, say: Say) -> archive.Manifest:
    with _snapshot() as (snapshot, manifest):
        say(f"database: {manifest.rows['agent_execution_history']} runs, {manifest.rows['loops_fact']} facts")
        with writer.member(archive.DATABASE) as member:
            _dump(snapshot, member)
    say(f"database: {_mb(writer.members[archive.DATABASE])} written")
    with writer.member(archive.STATE) as member:
        files = _pack(member, target)
    say(f"files: {files} ({_mb(writer.members[archive.STATE])}) written")
    manifest = replace(manifest, files=files)
    writer.finish(manifest)
    return manifest


def login() -> dict[str, Any]:
    """Who dumps and restores: the owner of the database where one is configured."""
    return settings.DATABASE_OWNER or settings.DATABASES["default"]


@contextmanager
def _snapshot() -> Iterator[tuple[str, archive.Manifest]]:
    """Hold one view of the database, that the dump and the manifest share."""
    anchor = _anchor()  # before the snapshot, which then goes on from it
    who, name = login(), connection.settings_dict["NAME"]
    address = {"host": who["HOST"] or None, "port": who["PORT"] or None, "dbname": name}
    try:
        with psycopg.connect(user=who["USER"], password=who["PASSWORD"], **address) as held:
            held.execute("SET idle_in_transaction_session_timeout = 0")  # it idles while the dump runs
            held.execute("SET statement_timeout = 0")
            held.commit()
            held.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            held.read_only = True
            row = held.execute("SELECT pg_export_snapshot()").fetchone()
            assert row is not None
            yield str(row[0]), replace(_manifest(held), anchor=anchor)
    except psycopg.Error as error:
        raise OpsError(
            f"the database cannot be read ({str(error).strip().splitlines()[0]}): is it running, and migrated?"
        ) from error


def _anchor() -> str:
    """One that cannot be believed is no part of a backup: `doctor` says what is to be done about it."""
    try:
        last = anchors.newest()
    except anchors.AnchorError:
        return ""
    return anchors.signed(last) if last else ""


def _manifest(held: psycopg.Connection[Any]) -> archive.Manifest:
    one = f"SELECT {', '.join(f'(SELECT count(*) FROM {table})' for table in COUNTED)}"  # noqa: S608 - names of our own
    counts = held.execute(one).fetchone()
    assert counts is not None
    applied = held.execute("SELECT app || '.' || name FROM django_migrations ORDER BY 1").fetchall()
    runs = held.execute("SELECT id, head_seq, head_hash FROM agent_execution_history").fetchall()
    return archive.Manifest(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=release(),
        postgres=str(held.info.server_version // 10_000),
        migrations=sorted({name for (name,) in applied}),
        state_folder=str(settings.PATHS.state),
        workspaces_folder=str(copies.root()),
        runs={str(run): (seq, bytes(head).hex()) for run, seq, head in runs},
        rows=dict(zip(COUNTED, counts, strict=True)),
    )


def release() -> str:
    """Version of AgentOps."""
    try:
        return version("agentops-console")
    except PackageNotFoundError:
        return "a checkout"


def _dump(snapshot: str, member: archive.Hashed) -> None:
    """Run pg_dump on the snapshot; owners and rights are left out, `migrate` gives them where it is restored.

    Compression level 6 would take six times as long and save 13 %.
    """
    program = programs.folder(programs.server_version(), "pg_dump") / "pg_dump"
    argv: list[str | Path] = [program, f"--snapshot={snapshot}", "--format=plain", "--compress=1", "--encoding=UTF8"]
    argv += ["--schema=public", "--no-owner", "--no-privileges", "--no-comments"]
    environ = programs.login(login(), connection.settings_dict["NAME"])
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=errors) as dumping,
    ):
        assert dumping.stdout is not None
        while chunk := dumping.stdout.read(archive.CHUNK):
            member.write(chunk)
        if dumping.wait():
            errors.seek(0)
            raise OpsError(f"pg_dump failed: {errors.read().decode(errors='replace').strip()[-500:]}")


def _pack(member: archive.Hashed, target: Path) -> int:
    """Everything of the state folder that is not made anew, and the folders of all runs; how many files."""
    count = 0
    with tarfile.open(fileobj=member, mode="w|gz", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for name, path in _files(target):
            count += _add(tar, name, path)
    return count


def _files(target: Path) -> Iterator[tuple[str, Path]]:
    """(name in the archive, path), folders before what they hold, links as links."""
    folders, state = copies.root(), settings.PATHS.state
    for path in sorted(state.iterdir()) if state.is_dir() else ():
        if not _left_out(path) and path != folders and path != target:
            yield from _below(f"state/{path.name}", path)
    for path in sorted(folders.iterdir()) if folders.is_dir() else ():
        if not path.name.startswith(NOT_KEPT):
            yield from _below(f"workspaces/{path.name}", path)


NOT_KEPT = (".", "setup", "preflight-")
"""Of the folders beside those of runs: drafts, and what is installed, fetched or tried anew."""


def _left_out(path: Path) -> bool:
    name = path.name
    made = name in MADE_ANEW or name.startswith((".", "programs", "before-restore-"))
    return made or name.endswith(".draft")


def _below(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    yield name, path
    if path.is_symlink() or not path.is_dir():
        return
    for found in sorted(path.iterdir()):
        yield from _below(f"{name}/{found.name}", found)


def _add(tar: tarfile.TarFile, name: str, path: Path) -> int:
    """Add one entry as it is now; what vanishes meanwhile is no part of the backup."""
    try:
        entry = tar.gettarinfo(path, name)
        if not entry.isreg():
            if entry.isdir() or entry.issym():
                tar.addfile(entry)
            elif entry.islnk():  # a second name of a file: stored as a file of its own
                return _add_content(tar, entry, path)
            return 0
        return _add_content(tar, entry, path)
    except FileNotFoundError:
        return 0


def _add_content(tar: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> int:
    """Read first, then say how long it is: a tool may be writing it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as source, tempfile.SpooledTemporaryFile(IN_MEMORY) as copy:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
        size = 0
        while chunk := source.read(archive.CHUNK):
            copy.write(chunk)
            size += len(chunk)
        copy.seek(0)
        entry.size, entry.type, entry.linkname = size, tarfile.REGTYPE, ""
        tar.addfile(entry, copy)
    return 1


def _mb(told: dict[str, Any]) -> str:
    return f"{told['size'] / 1e6:,.1f} MB"
