"""What compose.yaml says, run without Docker: each service's command with its environment, on servers of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from agentops.embedded import postgres, valkey
from agentops.embedded.paths import Paths
from agentops.embedded.process import Command, start, stop
from tests.ports import free_port
from tests.stack import wait_until

ROOT = Path(__file__).parents[1]
OURS = ("migrate", "web", "worker", "beat", "monitor")
CONTAINER_PORT = "8000"
_PLACE = re.compile(r"\$\{(\w+)(?::([-?])([^${}]*))?\}")
"""An innermost ``${NAME}``, ``${NAME:-default}`` or ``${NAME:?why it is needed}``."""


def read(given: Mapping[str, str]) -> dict[str, Any]:
    """The file with its places filled from ``given``, which stands for .env and the shell."""
    return dict(_filled(yaml.safe_load((ROOT / "compose.yaml").read_text()), given))


def _filled(value: Any, given: Mapping[str, str]) -> Any:
    def fill(place: re.Match[str]) -> str:
        name, rule, text = place.groups()
        if rule == "?" and not given.get(name):
            raise KeyError(text)
        return given.get(name) or (text if rule == "-" else "") or ""

    if isinstance(value, dict):
        return {key: _filled(item, given) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, given) for item in value]
    while isinstance(value, str) and _PLACE.search(value):
        value = _PLACE.sub(fill, value)
    return value


def environment(service: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """A name without a value is passed on where it is set, and not set otherwise."""
    named = service["environment"].items()
    return {name: str(given[name] if value is None else value) for name, value in named if value or name in given}


def of_the_image() -> dict[str, str]:
    """ENV of the last stage of the Dockerfile, but for its PATH."""
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    lines = re.findall(r"^ENV (.*)$", last, re.MULTILINE)
    pairs = (pair.partition("=") for line in lines for pair in line.split())
    return {name: value for name, _, value in pairs if name != "PATH"}


@dataclass
class House:
    """One state folder, two servers, and the services that run on them."""

    folder: Path
    given: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    @cached_property
    def servers(self) -> Paths:
        return Paths(self.folder / "servers")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def logs(self) -> Path:
        return self.folder / "log"

    def said(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text(errors="replace")

    def service(self, name: str) -> dict[str, Any]:
        passwords = {
            "POSTGRES_PASSWORD": postgres.connection_settings(self.servers, postgres.OWNER)["PASSWORD"],
            "APP_PASSWORD": "application",
            "SECRET_KEY": "of the test, and long enough to sign with: 0123456789abcdef",
        }
        self.given = {**passwords, **self.given}
        return dict(read(self.given)["services"][name])

    def environ(self, name: str) -> dict[str, str]:
        """As it stands, but for places: servers, state folder and port are this machine's."""
        found = {**of_the_image(), **environment(self.service(name), self.given)}
        socket = quote(str(self.servers.run), safe="")
        moved = {"@postgres:5432/": f"@{socket}/", "redis://valkey:6379/0": valkey.url(self.servers)}
        for old, new in moved.items():
            found = {key: value.replace(old, new) for key, value in found.items()}
        assert found["AGENTOPS_STATE"] == "/state"
        found |= {"AGENTOPS_STATE": str(self.folder / "state"), "PORT": str(self.port)}
        return {**found, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self.folder)}

    def here(self, argv: list[str]) -> list[str]:
        return [re.sub(rf"\b{CONTAINER_PORT}\b", str(self.port), part) for part in argv]

    def run(self, name: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """The service's command, or another one in its place, to its end."""
        command = list(argv) or self.here(self.service(name)["command"])
        with (self.logs / f"{name}.log").open("a") as log:
            done = subprocess.run(
                command, cwd=ROOT, env=self.environ(name), capture_output=True, text=True, check=False, timeout=600
            )
            log.write(done.stdout + done.stderr)
        return done

    @contextmanager
    def running(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self.here(self.service(name)["command"]),
                cwd=ROOT,
                env=self.environ(name),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            stop(process, Command(name, []).stop_signal)

    def is_healthy(self, name: str) -> bool:
        """The service's own health check."""
        kind, *argv = self.service(name)["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(self.here(argv), cwd=ROOT, env=self.environ(name), capture_output=True, check=False)
        return done.returncode == 0


@contextmanager
def house(**given: str) -> Iterator[House]:
    """Both servers, as safe as in production, with an empty database as the image of Postgres makes it."""
    with tempfile.TemporaryDirectory(prefix="ao-", dir="/tmp") as name, ExitStack() as until:
        folder = Path(name)
        folder.chmod(0o711)
        found = House(folder, given)
        for made in (found.logs, folder / "state"):
            made.mkdir()
        postgres.prepare(found.servers)
        for command in (postgres.command(found.servers), valkey.command(found.servers)):
            log = until.enter_context((found.logs / f"{command.name}.log").open("ab"))
            until.callback(stop, start(command, log), command.stop_signal)
        wait_until(lambda: postgres.is_ready(found.servers) and valkey.is_ready(found.servers), "the servers")
        with postgres._connect_as_owner(found.servers) as connection:
            connection.execute("CREATE DATABASE agentops")
        yield found
