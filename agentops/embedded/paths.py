"""Where the stack keeps its files. Settings and supervisor derive the same places, so no variable is needed."""

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentops.embedded import EmbeddedError

BASE_DIR = Path(__file__).resolve().parent.parent.parent
SANDBOXED = 62534
"""Whose files agents' commands make under a root worker (`loops.tools.sandbox.namespaces.user`), and the group that
passes through folders which root closes to everybody else."""
LONGEST_SOCKET_FOLDER = 80  # unix socket paths end at 103 bytes on macOS, 107 on Linux


def is_root() -> bool:
    """Tell whether this process has the rights of root, which Postgres refuses to have."""
    return os.geteuid() == 0


def default_state(environ: Mapping[str, str] = os.environ) -> Path:
    """Choose the state folder: named, system-wide for root, beside a checkout, else the user's data folder."""
    if chosen := environ.get("AGENTOPS_STATE"):
        return Path(chosen).absolute()
    if is_root():  # a user of its own cannot enter root's home
        return Path("/var/lib/agentops")
    if (BASE_DIR / "pyproject.toml").exists():
        return BASE_DIR / ".agentops"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "agentops"


@dataclass(frozen=True)
class Paths:
    """Every place inside one state folder."""

    state: Path

    @property
    def run(self) -> Path:
        """Folder of the sockets: nobody but us may enter it."""
        run = self.state / "run"
        if len(str(run)) <= LONGEST_SOCKET_FOLDER:
            return run
        name = hashlib.sha256(str(run).encode()).hexdigest()[:10]
        return Path(tempfile.gettempdir()) / f"agentops-{self._owner()}-{name}"

    @property
    def postgres(self) -> Path:
        """Data of the embedded Postgres."""
        return self.state / "postgres"

    @property
    def valkey(self) -> Path:
        """Data of the embedded Valkey."""
        return self.state / "valkey"

    @property
    def valkey_socket(self) -> Path:
        """Socket of the embedded Valkey."""
        return self.run / "valkey.sock"

    @property
    def logs(self) -> Path:
        """What the processes say when it is not shown."""
        return self.state / "log"

    @property
    def port(self) -> Path:
        """Where the pages are served, for links that commands of other shells print."""
        return self.run / "port"

    def port_in_use(self, otherwise: int) -> int:
        """What was kept there; ``otherwise`` where nothing was."""
        try:
            return int(self.port.read_text())
        except (OSError, ValueError):
            return otherwise

    @property
    def admin_password(self) -> Path:
        """First password of the user `admin`."""
        return self.state / "admin-password"

    def make(self) -> None:
        """Create the folders with the permissions they need."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.close(self.state)
        for folder in (self.valkey, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)
        self._make_run()

    @staticmethod
    def close(folder: Path) -> None:
        """Let nobody else in. Under root Postgres and commands, which are other users, pass through and cannot list."""
        if is_root():
            os.chown(folder, -1, SANDBOXED)
        folder.chmod(0o710 if is_root() else 0o700)

    def _make_run(self) -> None:
        self.run.mkdir(mode=0o700, exist_ok=True)
        found = self.run.lstat()
        if not stat.S_ISDIR(found.st_mode) or (found.st_uid != os.geteuid() and not is_root()):
            raise EmbeddedError(f"{self.run} belongs to somebody else: remove it or set AGENTOPS_STATE")
        self.run.chmod(0o700)

    def _owner(self) -> int:
        """Whose the state folder is: root's commands look where that user's processes are."""
        return self.state.stat().st_uid if self.state.exists() else os.geteuid()

    def secret(self, purpose: str) -> str:
        """Derive the secret for one purpose from the installation's only stored secret."""
        return hmac.new(self._stored_secret(), purpose.encode(), hashlib.sha256).hexdigest()

    def _stored_secret(self) -> bytes:
        file = self.state / "secret"
        try:
            return file.read_bytes()
        except FileNotFoundError:
            write_once(file, secrets.token_hex(32))
            return file.read_bytes()


def write_once(file: Path, text: str) -> bool:
    """Create a private file with its content in one step; of several writers the first wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        os.link(draft, file)  # refuses to replace
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True
