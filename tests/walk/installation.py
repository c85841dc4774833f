"""Installations for the walk: started as a person starts them, asked with their own command, stopped by Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

from agentops.embedded.paths import BASE_DIR
from tests.ports import free_port
from tests.walk import WalkError
from tests.walk.packages import Packages

OUTSIDE = ("DATABASE_", "REDIS_URL", "BASE_URL", "HOST", "PORT", "ALLOWED_HOSTS", "CSRF_", "SECRET_KEY", "DJANGO_")
MODELS = ("ANTHROPIC_", "OPENAI_", "AGENTOPS_")
DEVELOPERS = ("VIRTUAL_ENV", "PYTHON", "PYTEST_", "MAKE", "MFLAGS", "ARGS", "CI")
PATIENCE = 180
TO_INSTALL = 300
LINK = re.compile(r"(http://\S+?)(/login/once/\S+)")


def environment() -> dict[str, str]:
    """That of whoever walks, without what only developers and installations have in it."""
    dropped = (*OUTSIDE, *MODELS, *DEVELOPERS)
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


def bare_environment() -> dict[str, str]:
    """The same, without programs of theirs."""
    mine = environment()
    return mine | {"PATH": _path_of_a_bare_machine(mine["PATH"])}


class Installation:
    """Everything that one ``up`` of this checkout runs, in a state folder that nobody else uses."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="aowalk-", dir="/tmp"))  # short: socket paths are limited
        self.folder.chmod(0o711)
        self.state = self.folder
        self.environ = environment() | {"AGENTOPS_STATE": str(self.state), "PORT": str(free_port())}
        self.url = self.login = ""
        self.printed: list[str] = []
        self._up: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        argv = [sys.executable, str(BASE_DIR / "manage.py"), "up", "--json-ready", "--port", self.environ["PORT"]]
        line = self._until(argv, BASE_DIR, '"login"', PATIENCE)
        ready = json.loads(line)
        self.url, self.login = ready["url"].rstrip("/"), ready["login"]

    def manage(self, *words: str) -> str:
        """Run one command against it; returns what the command said."""
        return self._asked([sys.executable, str(BASE_DIR / "manage.py"), *words], BASE_DIR)

    def stop(self) -> None:
        """Ctrl-C it; raises when it does not end by itself and cleanly, or leaves a process behind."""
        if self._up is None or self._up.poll() is not None:
            return
        family = self._family()
        os.killpg(self._up.pid, signal.SIGINT)  # as a terminal does: all of the foreground group hear it
        _, left = psutil.wait_procs(family, PATIENCE)
        for process in left:
            process.kill()
        code = self._up.wait()
        if left or code:
            raise WalkError(f"it ended with {code} and left {len(left)} processes behind")

    def processes(self) -> Iterator[tuple[str, int]]:
        """(name, user) of everything that runs now; servers have helpers that end meanwhile."""
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                yield process.name(), process.uids().effective

    def files(self) -> Iterator[tuple[Path, int]]:
        """(path, owner) of everything in the state folder."""
        for path in self.state.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.lstat().st_uid

    def last_words(self, lines: int = 15) -> str:
        """The tail of what it printed, and of every log that holds anything."""
        tails = {"printed": self.printed[-3 * lines :]}
        for log in sorted(self.state.glob("log/*.log")):
            tails[log.name] = log.read_text(errors="replace").strip().splitlines()[-lines:]
        return "\n".join(f"--- {name}\n" + "\n".join(tail) for name, tail in tails.items() if tail)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _family(self) -> list[psutil.Process]:
        assert self._up is not None
        return [psutil.Process(self._up.pid), *psutil.Process(self._up.pid).children(recursive=True)]

    def _until(self, argv: Sequence[str], cwd: Path, word: str, patience: float) -> str:
        """Start it in a session of its own; returns the first line that holds ``word``."""
        self._up = subprocess.Popen(
            argv,
            env=self.environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._up.stdout is not None
        threading.Thread(target=self._listen, args=(self._up.stdout,), daemon=True).start()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if found := next((line for line in [*self.printed] if word in line), ""):
                return found
            if self._up.poll() is not None:
                raise WalkError(f"it ended with {self._up.returncode}")
            time.sleep(0.05)
        raise WalkError("it did not become ready")

    def _listen(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self.printed.append(line.rstrip())

    def _asked(self, argv: Sequence[str], cwd: Path) -> str:
        done = subprocess.run(
            argv, env=self.environ, cwd=cwd, check=False, capture_output=True, text=True, timeout=TO_INSTALL
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise WalkError(f"{' '.join(argv[-2:])} ended with {done.returncode}: {said}")
        return done.stdout.strip("\n")


class Fresh(Installation):
    """A clone of what is committed here, started with ``make run``, as ``user`` and on the runtime packages alone.

    ``hidden``: as on a machine without bubblewrap. Both want root.
    """

    def __init__(self, packages: Packages, *, user: str = "", hidden: bool = False) -> None:
        super().__init__()
        self.environ |= bare_environment() | packages.environ
        packages.share()
        self._as = [*(_without_bubblewrap() if hidden else []), *(_as_user(user) if user else [])]
        self.home = self.folder / "agentops"
        self.state = self.home / ".agentops" if user else self.folder / "state"  # root's own default is not ours to use
        self._asked([shutil.which("git") or "git", "clone", "-q", str(BASE_DIR), str(self.home)], self.folder)
        if user:
            self.environ.pop("AGENTOPS_STATE")
            self.environ |= {"HOME": str(self.folder), "USER": user, "LOGNAME": user}
            account = pwd.getpwnam(user)
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        else:
            self.environ["AGENTOPS_STATE"] = str(self.state)
        self.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # as images of Python and hosts of CI set it for everything

    def start(self) -> None:
        """``make run``, until it prints the link."""
        line = self._until([*self._as, "make", "run"], self.home, "/login/once/", TO_INSTALL)
        found = LINK.search(line)
        assert found is not None
        self.url, self.login = found[1], found[0]

    def manage(self, *words: str) -> str:
        """The command that ``make run`` makes."""
        return self._asked([*self._as, str(self.home / ".venv/bin/agentops"), *words], self.home)

    def packages(self) -> set[str]:
        """Names of what is installed for it."""
        listing = "import importlib.metadata as m; print(*{d.name.lower() for d in m.distributions()})"
        return set(self._asked([str(self.home / ".venv/bin/python"), "-c", listing], self.home).split())

    def uncompiled(self) -> list[str]:
        """Modules that each process would have to compile at its start: none, whoever runs it."""
        program = (
            "import importlib.util, pathlib, sysconfig\n"
            "roots = ['agentops', 'gates', 'loops', sysconfig.get_path('purelib') + '/django']\n"
            "files = [path for root in roots for path in pathlib.Path(root).rglob('*.py')]\n"
            "print(*(p for p in files if not pathlib.Path(importlib.util.cache_from_source(p)).exists()), sep='\\n')"
        )
        return self._asked([str(self.home / ".venv/bin/python"), "-c", program], self.home).split()


class Package(Fresh):
    """The wheel of what is committed here, in an environment that holds its requirements and nothing else."""

    def __init__(self, packages: Packages, *, user: str = "", hidden: bool = False) -> None:
        super().__init__(packages, user=user, hidden=hidden)
        self.state = self.folder / ".local/share/agentops" if user else self.state

    def start(self) -> None:
        """Build, install, ``agentops up``."""
        venv, lock = self.home / ".venv", self.home / "requirements.lock"
        bare = Path(tempfile.mkdtemp(prefix="elsewhere-", dir=self.folder))
        bare.chmod(0o755)
        self._asked(["python3", "-m", "venv", str(venv)], self.folder)
        pip = [str(venv / "bin/python"), "-m", "pip", "-qq", "--disable-pip-version-check"]
        built = [sys.executable, "-m", "pip", "-qq", "wheel", str(self.home), "--no-deps", "--no-build-isolation"]
        self._asked([*built, "--wheel-dir", str(bare)], self.folder)
        self._asked([*pip, "install", "--require-hashes", "-r", str(self.home / "requirements-uv.lock")], self.folder)
        uv = [str(venv / "bin/uv"), "pip", "install", "-q", "--python", str(venv / "bin/python")]
        self._asked([*uv, "--require-hashes", "-r", str(lock)], self.folder)
        self._asked([*uv, "--no-deps", *map(str, bare.glob("*.whl"))], self.folder)
        line = self._until([*self._as, str(venv / "bin/agentops"), "up"], bare, "/login/once/", TO_INSTALL)
        found = LINK.search(line)
        assert found is not None
        self.url, self.login = found[1], found[0]


def _path_of_a_bare_machine(mine: str) -> str:
    """The system's own programs where their Python will do, so that nothing of whoever walks is seen."""
    bare = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    check = ["python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        found = subprocess.run(check, env={"PATH": bare}, check=False, capture_output=True).returncode
    except FileNotFoundError:
        return mine
    return mine if found else bare


def _without_bubblewrap() -> list[str]:
    """In a mount namespace of its own, where the program is a file that nobody can execute."""
    programs = {path for path in ("/usr/bin/bwrap", shutil.which("bwrap")) if path and Path(path).exists()}
    hide = "".join(f"mount --bind /dev/null {path} && " for path in sorted(programs))
    return ["unshare", "--mount", "--propagation", "private", "bash", "-c", f'{hide}exec "$@"', "hidden"]


def _as_user(name: str) -> list[str]:
    account = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--inh-caps=-all"]
