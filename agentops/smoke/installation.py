"""An installation of its own for the walk: started with `up`, asked with `manage.py`, stopped, gone."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from agentops.embedded.paths import BASE_DIR
from agentops.smoke import SmokeError

OUTSIDE = ("DATABASE_", "REDIS_URL", "BASE_URL", "HOST", "PORT", "ALLOWED_HOSTS", "CSRF_", "SECRET_KEY", "DJANGO_")
MODELS = ("ANTHROPIC_", "OPENAI_", "AGENTOPS_")
PATIENCE = 60


class Installation:
    """Everything that one `up` runs, in a state folder that nobody else uses."""

    def __init__(self) -> None:
        self.state = Path(tempfile.mkdtemp(prefix="aosmoke-", dir="/tmp"))  # short: socket paths are limited
        kept = {key: value for key, value in os.environ.items() if not key.startswith((*OUTSIDE, *MODELS))}
        self.environ = {**kept, "AGENTOPS_STATE": str(self.state), "PORT": str(_free_port())}
        self.url = self.login = ""
        self._up: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        argv = [sys.executable, str(BASE_DIR / "manage.py"), "up", "--json-ready", "--port", self.environ["PORT"]]
        with (self.state / "up.log").open("w") as log:
            self._up = subprocess.Popen(
                argv, env=self.environ, cwd=BASE_DIR, stdout=subprocess.PIPE, stderr=log, text=True
            )
        ready = json.loads(self._first_line(self._up))
        self.url, self.login = ready["url"].rstrip("/"), ready["login"]

    def manage(self, *words: str) -> str:
        """Run one command against it; returns what the command said."""
        argv = [sys.executable, str(BASE_DIR / "manage.py"), *words]
        done = subprocess.run(
            argv, env=self.environ, cwd=BASE_DIR, check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode:
            raise SmokeError(f"{words[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout.strip()

    def stop(self) -> None:
        """Ctrl-C it; raises when it does not end by itself and cleanly, or leaves a process behind."""
        if self._up is None or self._up.poll() is not None:
            return
        family = [psutil.Process(self._up.pid), *psutil.Process(self._up.pid).children(recursive=True)]
        self._up.send_signal(signal.SIGINT)
        _, left = psutil.wait_procs(family, PATIENCE)
        for process in left:
            process.kill()
        code = self._up.wait()
        if self._up.stdout:
            self._up.stdout.close()
        if left or code:
            raise SmokeError(f"up ended with {code} and left {len(left)} processes behind")

    def last_words(self, lines: int = 15) -> str:
        """The tail of every log that holds anything."""
        logs = sorted([self.state / "up.log", *self.state.glob("log/*.log")])
        tails = {log.name: log.read_text(errors="replace").strip().splitlines()[-lines:] for log in logs}
        return "\n".join(f"--- {name}\n" + "\n".join(tail) for name, tail in tails.items() if tail)

    def remove(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)

    def _first_line(self, up: "subprocess.Popen[str]") -> str:
        assert up.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and up.poll() is None:
            if select.select([up.stdout], [], [], 0.2)[0] and (line := up.stdout.readline()):
                return line
        raise SmokeError("up did not become ready" if up.poll() is None else f"up ended with {up.poll()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
