"""Restore a backup: everything is checked before anything is touched, and the database changes in one transaction.

Leases are not restored. Owners are cleared and every epoch leaps ahead inside that transaction, so a worker that still
lives somewhere can write nothing, and the sweeper finds the runs that were under way (SPEC J3, J4).
"""

import gzip
import os
import shutil
import subprocess
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NoReturn
from zipfile import ZipFile

from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.migrations.loader import MigrationLoader
from psycopg import sql

from agentops import roles
from agentops.embedded import postgres
from agentops.embedded.paths import Paths
from agentops.evidence import anchors, rounds, verification
from agentops.ops import OpsError, archive, programs, servers
from agentops.ops.backup import Say, login
from loops.models import Run
from loops.services import audit
from loops.storage import chain
from loops.workspaces import copies

EPOCH_LEAP = 1_000_000
"""More than any run was ever claimed after the backup was made: how often is not known here."""
OURS = ("agentops", "loops", "gates")
OCCUPIED = ("agent_execution_history", "loops_project", "auth_user")
NEWER_THAN_16 = b"SET transaction_timeout = 0;\n"
UNPACKED = "restore.draft"


def restore(file: Path, *, force: bool = False, say: Say = lambda line: None) -> chain.ChainReport:
    """Put the installation of ``file`` in the place of this one.

    Raises OpsError, having changed nothing, when the archive is damaged or newer than this version, when AgentOps runs,
    or when there is something here and not ``force``.
    """
    say("checking every byte of the backup")
    with archive.opened(file) as (stored, manifest):
        say(f"backup of {manifest.made_at}: {len(manifest.runs)} runs, {manifest.files} files")
        _check_known(manifest)
        with servers.database_to_itself(), roles.as_owner():  # the application's role may not be there yet
            _check_free(force)
            draft = _unpack(stored)
            say("files unpacked; loading the database")
            try:
                _load(stored, manifest)
                say("database loaded, owners of runs cleared; migrating and verifying")
                call_command("migrate", verbosity=0, interactive=False)
                report = _verify(manifest, draft)
                detail = {"backup": manifest.made_at, "file": file.name, "runs": len(manifest.runs)}
                audit.record("installation.restored", actor=None, detail=detail)
                _put_in_place(draft, say)  # last: from then on the roles have other passwords
                _keep_anchor(manifest, say)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    if report.problems:
        raise OpsError("restored, but not as it was: " + "; ".join(report.problems[:5]))
    return report


def _check_known(manifest: archive.Manifest) -> None:
    known = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}
    if unknown := [name for name in manifest.migrations if name.split(".")[0] in OURS and name not in known]:
        raise OpsError(f"the backup is of a newer version ({unknown[-1]} is unknown here): upgrade AgentOps first")


def _check_free(force: bool) -> None:
    """Nothing is replaced by accident."""
    if force:
        return
    with connection.cursor() as cursor:
        there = [table for table in OCCUPIED if table in connection.introspection.table_names(cursor)]
        for table in there:
            cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")  # noqa: S608 - names of our own
            if cursor.fetchone()[0]:
                raise OpsError(
                    f"the database {connection.settings_dict['NAME']} is not empty ({table} has rows): restore into a "
                    "fresh one, or replace everything in it with --force"
                )
    folders = copies.root()
    if folders.is_dir() and any(folders.iterdir()):
        raise OpsError(f"{folders} is not empty: move it away, or replace it with --force")


def _unpack(stored: ZipFile) -> Path:
    """Files as they were, beside their place. Raises OpsError."""
    draft: Path = settings.PATHS.state / UNPACKED
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    try:
        with stored.open(archive.STATE) as member, tarfile.open(fileobj=member, mode="r|gz") as tar:
            tar.extraction_filter = lambda member, _: member  # type: ignore[attr-defined] # not known before 3.11.4
            checked = (_inside(member, draft) for member in tar)
            tar.extractall(draft, checked, numeric_owner=True)  # noqa: S202 - checked
    except (OSError, tarfile.TarError, EOFError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise OpsError(f"the files cannot be unpacked into {draft}: {error}") from error
    return draft


def _inside(member: tarfile.TarInfo, folder: Path) -> tarfile.TarInfo:
    """Refuse what would leave the folder, by way of a link as well; keep owners and modes. No backup has hard links."""
    if member.islnk() or not (folder / member.name).resolve().is_relative_to(folder.resolve()):
        raise tarfile.ReadError(f"{member.name} would lie outside")
    return member


def _load(stored: ZipFile, manifest: archive.Manifest) -> None:
    """Replace the schema by the dump, all or nothing."""
    server = programs.server_version()
    name = connection.settings_dict["NAME"]
    epilogue = _epilogue(manifest)
    connections.close_all()
    argv: list[str | Path] = [
        programs.folder(server, "psql") / "psql",
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-o",
        os.devnull,
    ]
    with tempfile.TemporaryFile() as errors:
        loading = subprocess.Popen(argv, env=programs.login(login(), name), stdin=subprocess.PIPE, stderr=errors)
        assert loading.stdin is not None
        try:
            with loading.stdin as script:
                script.write(b"BEGIN; SET LOCAL client_min_messages = warning; DROP SCHEMA IF EXISTS public CASCADE;\n")
                _copy(stored, script, server)
                script.write(epilogue)
        except (OSError, EOFError) as error:  # without its COMMIT nothing has happened
            loading.kill()
            _fail(loading, errors, error)
        if loading.wait():
            _fail(loading, errors, None)


def _fail(loading: "subprocess.Popen[bytes]", errors: IO[bytes], error: Exception | None) -> NoReturn:
    loading.wait()
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()[-500:] or str(error)
    raise OpsError(f"the database could not be loaded, and is as it was: {said}") from error


def _copy(stored: ZipFile, script: IO[bytes], server: int) -> None:
    with stored.open(archive.DATABASE) as member, gzip.open(member) as dump:
        for _ in range(50):  # the head of a dump, where a newer pg_dump sets what an older server does not know
            line = dump.readline()
            if server > 16 or line != NEWER_THAN_16:
                script.write(line)
        shutil.copyfileobj(dump, script, archive.CHUNK)


def _epilogue(manifest: archive.Manifest) -> bytes:
    """No lease survives, folders lie where they lie now, and all of it is committed at once."""
    freed = sql.SQL(
        "UPDATE public.agent_execution_history SET runnable = runnable OR owner <> '', owner = '', lease_until = NULL, "
        "epoch = epoch + {};\n"
    ).format(sql.Literal(EPOCH_LEAP))
    moves = [(manifest.workspaces_folder, str(copies.root())), (manifest.state_folder, str(settings.PATHS.state))]
    moved = [
        sql.SQL("UPDATE public.{} SET {} = {} || substr({}, {}) WHERE starts_with({}, {});\n").format(
            sql.Identifier(table),
            sql.Identifier(column),
            sql.Literal(new),
            sql.Identifier(column),
            sql.Literal(len(old) + 1),
            sql.Identifier(column),
            sql.Literal(f"{old}/"),
        )
        for old, new in moves
        for table, column in (("agent_execution_history", "workspace_path"), ("loops_workspace", "path"))
        if old != new
    ]
    connection.ensure_connection()
    statements = sql.SQL("").join([freed, *moved, sql.SQL("COMMIT;\n")])
    return statements.as_bytes(connection.connection)


def _verify(manifest: archive.Manifest, draft: Path) -> chain.ChainReport:
    """Every chain, that each ends where it ended, and that all goes on from the anchor of the time."""
    report = chain.verify()
    if manifest.anchor:
        try:
            report.problems += verification.judge([anchors.parsed(manifest.anchor, _key(draft))]).problems
        except anchors.AnchorError as error:
            report.problems.append(f"the anchor in the backup {error}")
    found = {
        str(run): [seq, bytes(head).hex()] for run, seq, head in Run.objects.values_list("pk", "head_seq", "head_hash")
    }
    for run, head in manifest.runs.items():
        if found.get(run) != list(head):
            report.problems.append(f"run {run} does not end as the backup says")
    return report


def _key(draft: Path) -> bytes:
    """What the anchor of the backup was signed with."""
    restored = draft / "state"
    return anchors.key(Paths(restored) if (restored / "secret").exists() else None)


def _keep_anchor(manifest: archive.Manifest, say: Say) -> None:
    """An anchor that is here stays: a person confirms that the database is older now. Else that of the backup."""
    try:
        last = anchors.newest()
    except anchors.AnchorError:
        anchors.set_aside()  # of another installation, or nobody's
        last = None
    if last is None and manifest.anchor:
        anchors.append(anchors.parsed(manifest.anchor))
    elif last is not None and rounds.breaks(last):
        said = f"{last.at:%Y-%m-%d %H:%M:%S} UTC"
        say(f'the anchor of {said} is newer than this backup: confirm with `manage.py anchor --anew "restored"`')


def _put_in_place(draft: Path, say: Say) -> None:
    """Move the files where they belong; what was there before is kept beside."""
    state, aside = settings.PATHS.state, f"before-restore-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    replaced: list[Path] = []
    for found in sorted((draft / "state").iterdir()) if (draft / "state").is_dir() else ():
        if found.name != "secret":
            replaced += _replace(found, state / found.name, state / aside)
    folders = copies.made_root()
    for found in sorted((draft / "workspaces").iterdir()) if (draft / "workspaces").is_dir() else ():
        replaced += _replace(found, folders / found.name, state / aside)
    if (draft / "state" / "secret").exists():
        _take_over_secret(draft / "state", state / aside)
    if replaced:
        say(f"{len(replaced)} files and folders that were here are kept in {state / aside}")


def _replace(found: Path, place: Path, aside: Path) -> list[Path]:
    replaced = []
    if place.exists() or place.is_symlink():
        aside.mkdir(mode=0o700, exist_ok=True)
        shutil.move(place, aside / place.name)
        replaced = [place]
    shutil.move(found, place)
    return replaced


def _take_over_secret(restored: Path, aside: Path) -> None:
    """It signs sessions and, in an embedded Postgres, gives both roles their passwords: they change together."""
    present: Path = settings.PATHS.state / "secret"
    if settings.EMBEDDED_POSTGRES:
        with roles.as_owner(), transaction.atomic(), connection.cursor() as cursor:
            for role in (postgres.APP, postgres.OWNER):
                password = Paths(restored).secret(f"postgres:{role}")
                change = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(password))
                cursor.execute(change)
            _replace(restored / "secret", present, aside)
    else:
        _replace(restored / "secret", present, aside)
