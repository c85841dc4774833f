"""The database of this installation, running for as long as a command needs it."""

import contextlib
import fcntl
import time
from collections.abc import Iterator

from django.conf import settings
from django.db import connections

from agentops import roles
from agentops.embedded import EmbeddedError, postgres
from agentops.embedded.paths import Paths
from agentops.embedded.process import start, stop
from agentops.ops import OpsError

PATIENCE_S = 60.0


@contextlib.contextmanager
def database() -> Iterator[None]:
    """Use the database that runs; an embedded one that does not is started, and stopped again."""
    if not settings.EMBEDDED_POSTGRES or postgres.is_ready(settings.PATHS):
        yield
        return
    with state_to_itself(), _embedded(settings.PATHS):
        yield


@contextlib.contextmanager
def database_to_itself() -> Iterator[None]:
    """Like ``database``, with nobody else at work in it. Raises OpsError while AgentOps runs."""
    if settings.EMBEDDED_POSTGRES:
        with state_to_itself(), _embedded(settings.PATHS):
            yield
        return
    with roles.as_owner():
        _nobody_connected()
    yield


@contextlib.contextmanager
def state_to_itself() -> Iterator[None]:
    """Hold the lock that `up` holds. Raises OpsError when it runs."""
    settings.PATHS.make()
    with (settings.PATHS.state / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OpsError(f"AgentOps is running on {settings.PATHS.state}: stop it first (Ctrl-C in `up`)") from None
        yield


@contextlib.contextmanager
def _embedded(paths: Paths) -> Iterator[None]:
    try:
        postgres.prepare(paths)
        command = postgres.command(paths)
        with (paths.logs / f"{command.name}.log").open("ab") as output:
            process = start(command, output)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not postgres.is_ready(paths):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise OpsError(f"the embedded Postgres does not start: see {paths.logs / 'postgres.log'}")
                time.sleep(0.05)
            postgres.create_roles(paths)
            yield
        finally:
            connections.close_all()
            stop(process, command.stop_signal)
    except EmbeddedError as error:
        raise OpsError(str(error)) from error


def _nobody_connected() -> None:
    """Web and workers of another machine would go on writing while the database is replaced."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend' AND usename = %s",
            [settings.DATABASES["default"]["USER"]],
        )
        others = cursor.fetchone()[0]
    if others:
        raise OpsError(
            f"{others} connections of AgentOps are open to this database: stop web, workers and scheduler first"
        )
