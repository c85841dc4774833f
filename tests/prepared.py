"""The database that processes of the suite begin with: made once for a state of the code, and copied by each.

What it holds belongs to the code, the program of Postgres and the user, who name its folder; ``build`` holds one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings import this module
    from agentops.embedded.paths import Paths

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
PLACE = ROOT / "build" / "prepared"
MADE_OF = ("agentops", "gates", "loops")
DATABASE = "agentops_test"
"""A copy of that of the product, which is in the cluster too."""
FAST_BUT_UNSAFE = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
MADE_WITHIN_S = 300


def same_secret(state: Path) -> None:
    """Give a new state folder the secret of all others: the passwords in a cluster are those of each copy."""
    secret = state / "secret"
    secret.touch(mode=0o600)
    secret.write_text(hashlib.sha256(b"the suite").hexdigest())


def lay(paths: Paths) -> None:
    """A cluster with the tables of the product, in the place of a new one, unless there is one. Its server does not run
    yet."""
    if paths.postgres.exists():
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    made = PLACE / _name()
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for former in PLACE.iterdir():
                if former.is_dir():
                    shutil.rmtree(former)
            _make(made)
        paths.make()
        _copy(made, paths.postgres)


def _name() -> str:
    """Of what is made by this code."""
    files = (file for part in MADE_OF for file in sorted((ROOT / part).rglob("*")) if file.suffix in (".py", ".sql"))
    known = hashlib.sha256(str(os.geteuid()).encode())
    for file in (HERE, ROOT / "requirements.lock", *files):
        known.update(f"\0{file}\0".encode() + file.read_bytes())
    return known.hexdigest()[:16]


def _copy(one: Path, other: Path) -> None:
    """With its owner, whom Postgres looks at."""
    subprocess.run(["cp", "-a", "--reflink=auto", one, other], check=True)


def _make(made: Path) -> None:
    """By a process of its own, with a state of its own."""
    draft = made.with_suffix(".draft")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTOPS_")}
    environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(ROOT)}
    making = [sys.executable, "-m", "tests.prepared", draft]
    subprocess.run(making, env=environ, cwd=ROOT, stdin=subprocess.DEVNULL, check=True, timeout=MADE_WITHIN_S)
    draft.rename(made)


def main(draft: Path) -> None:
    """Make it."""
    import django

    django.setup()
    import psycopg
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    from agentops.embedded import postgres
    from tests.stack import process, wait_until

    paths = settings.PATHS
    postgres.prepare(paths)
    with process(postgres.command(paths, *FAST_BUT_UNSAFE)):
        wait_until(lambda: postgres.is_ready(paths), "the server of the suite")
        postgres.create_roles(paths)
        call_command("migrate", verbosity=0)
        connections.close_all()
        login = settings.DATABASE_OWNER
        where = {"host": login["HOST"], "user": login["USER"], "password": login["PASSWORD"], "dbname": "postgres"}
        with psycopg.connect(**where, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {postgres.DATABASE}")
    _copy(paths.postgres, draft)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
