"""The processes of AgentOps itself, and what must be true before anybody is told to come in."""

import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

from agentops.embedded import EmbeddedError
from agentops.embedded.paths import is_root
from agentops.embedded.process import Command

SAID_BEFORE = {"PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges"}
"""Celery says in twelve lines what `up` has just said in one, with what to do."""


def web(host: str, port: int) -> Command:
    """Pages, API and sockets."""
    server: list[str | Path] = [
        _python(),
        "-m",
        "daphne",
        "-v",
        "0",
        "-b",
        host,
        "-p",
        str(port),
        "agentops.asgi:application",
    ]
    return Command("web", server)


def worker() -> Command:
    """Runs agents: one process; each run under way has a thread and an event loop of its own."""
    flags = ["-P", "threads", "-c", "16", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return Command("worker", [*_celery("worker"), *flags], environ=SAID_BEFORE if is_root() else {})


def beat() -> Command:
    """Rings the clock."""
    return Command("beat", [_python(), "-m", "agentops.clock"])


def monitor() -> Command:
    """Watches runs from outside the workers; needs the database alone."""
    return Command("monitor", [_python(), "-m", "agentops", "monitor"])


def check_port(host: str, port: int) -> None:
    """Refuse a port that is taken, naming the next one that is free."""
    if _is_free(host, port):
        return
    free = next((other for other in range(port + 1, min(port + 100, 65536)) if _is_free(host, other)), None)
    hint = f"try PORT={free}" if free else "choose another with PORT="
    raise EmbeddedError(f"port {port} is taken: {hint}")


def answers(url: str) -> bool:
    """Tell whether the page answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _python() -> Path:
    return Path(sys.executable)


def _celery(role: str) -> list[str | Path]:
    return [_python(), "-m", "celery", "-q", "-A", "agentops", role, "-l", "warning"]
