"""A Postgres and a Valkey of the benchmark's own, as durable as in production."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests import leftovers


@contextlib.contextmanager
def running(*postgres_options: str) -> Iterator[None]:
    """Start both servers in a temporary state folder, migrate, and set Django up on them."""
    with leftovers.state_folder("ao-bench-") as state:
        leftovers.end_on_sigterm()
        os.environ |= {"AGENTOPS_STATE": str(state), "DJANGO_SETTINGS_MODULE": "agentops.settings"}
        with _servers(*postgres_options):
            yield


@contextlib.contextmanager
def _servers(*postgres_options: str) -> Iterator[None]:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    from agentops.embedded import postgres, valkey
    from tests.stack import process, wait_until

    paths = settings.PATHS
    postgres.prepare(paths)
    with process(postgres.command(paths, *postgres_options)), process(valkey.command(paths)):
        wait_until(lambda: postgres.is_ready(paths) and valkey.is_ready(paths), "the servers of the benchmark")
        postgres.create_roles(paths)
        call_command("migrate", verbosity=0)
        yield
        connections.close_all()


def machine() -> str:
    """One line that says where the figures come from."""
    import platform

    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
