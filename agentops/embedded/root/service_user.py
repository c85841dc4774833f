"""Who AgentOps is when root starts it: a user of its own, to whom the state folder belongs (`docs/adr/0034`).

`up` hands the state folder over and becomes that user for good, supervisor and all. A command that root runs on such a
folder takes the user's rights for its files, so that none of them ever belongs to root. Where it cannot be, one
sentence says why, and AgentOps runs as root. The standard library alone: it is over before Django is loaded.
"""

import contextlib
import grp
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentops.embedded import EmbeddedError
from agentops.embedded.children import environment
from agentops.embedded.paths import BASE_DIR, default_state
from agentops.embedded.process import nobody
from agentops.embedded.root import handover, user_access
from agentops.embedded.root.user_access import User

NAME = "agentops"
CHOSEN = "AGENTOPS_USER"
NAMING_FILES = {"backup", "restore"}
TOUCHING = {"anchor", "backup", "restore", "prune", "doctor", "seed_demo", "monitor"}
"""Commands that make or remove files in the state folder. The others only talk to the servers."""
SETTINGS = "agentops.settings"
UNPRIVILEGED = 8000
FIRST_FREE_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


why_root = ""
"""For `up` to say, in one sentence."""


class StaysRoot(Exception):
    """It cannot be another user here; the message says why, and the command that would change it."""


def give_up_root(argv: Sequence[str]) -> None:
    """Before anything else of a command: does not return when ``up`` becomes another user. Raises EmbeddedError."""
    if sys.platform != "linux" or os.geteuid() != 0 or not _is_ours(argv):
        return
    if argv[1] == "up":
        _for_good(argv)
    elif argv[1] in TOUCHING:
        _for_a_command(default_state(), argv[1])


@contextlib.contextmanager
def as_caller() -> Iterator[None]:
    """Use files that were named on the command line with the rights of whoever typed it."""
    uid, gid, (_, _, kept) = os.geteuid(), os.getegid(), os.getresuid()
    if kept == uid:
        yield
        return
    os.seteuid(kept)
    os.setegid(kept)
    try:
        yield
    finally:
        os.setegid(gid)
        os.seteuid(uid)


def _is_ours(argv: Sequence[str]) -> bool:
    """Not help, and not the settings of somebody else, whose state folder is not known here."""
    foreign = os.environ.get("DJANGO_SETTINGS_MODULE", SETTINGS) != SETTINGS
    return len(argv) > 1 and not foreign and not any(arg.startswith(("--settings", "--help", "-h")) for arg in argv)


def _for_good(argv: Sequence[str]) -> None:
    state = default_state()
    try:
        known = _chosen(state)
        if known and not known.uid:
            return
        _check(known or User(NAME, *nobody()), state, argv)  # before it is made: any other user reaches as far
        user = known or _made()
        _hand_over(user, state)
    except StaysRoot as why:
        global why_root  # of the process, which stays what it is
        why_root = f"AgentOps runs as root: {why}."
        return
    _become(user, state)
    words = [str(Path(word).absolute()) if word == sys.argv[0] else word for word in sys.orig_argv[1:]]
    if not os.access(".", os.X_OK):
        os.chdir(BASE_DIR)
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - ourselves again


def _for_a_command(state: Path, verb: str) -> None:
    owner = _owner(state)
    if owner is None or user_access.why_no_access(owner, state):
        return
    os.environ["AGENTOPS_STATE"] = str(state)  # the default of root, who we are not from here on
    if verb not in NAMING_FILES:
        owner.become()
        return
    os.setgroups(owner.groups)
    os.setresgid(owner.gid, owner.gid, 0)  # 0 is kept for `as_caller`; no program that is started has it
    os.setresuid(owner.uid, owner.uid, 0)


def _chosen(state: Path) -> User | None:
    """Who is named, else whose folder it is, else the user made for it by an earlier start."""
    named = os.environ.get(CHOSEN, "")
    if named and _known(named) is None:
        raise EmbeddedError(f"{CHOSEN}: there is no user {named} on this machine")
    return _known(named) if named else _owner(state) or _known(NAME)


def _owner(state: Path) -> User | None:
    """Whose the folder is, None for root's, one that is not there, and a number that is no user's."""
    with contextlib.suppress(FileNotFoundError, KeyError):
        return User.of(pwd.getpwuid(uid)) if (uid := state.stat().st_uid) else None
    return None


def _known(name: str) -> User | None:
    with contextlib.suppress(KeyError):
        return User.of(pwd.getpwnam(name))
    return None


def _made() -> User:
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    another = user_access.starting(f"{CHOSEN}=NAME")
    if program is None:
        raise StaysRoot(f"there is no useradd to make a user for it; {another} takes one that is there")
    words = [program, "--system", "--no-create-home", "--home-dir", "/var/lib/agentops", "--shell", "/usr/sbin/nologin"]
    made = subprocess.run(
        [*words, *_group(), NAME], env=environment("program"), check=False, capture_output=True, text=True
    )
    if (found := _known(NAME)) is None:
        said = (made.stderr.strip().splitlines() or ["useradd failed"])[-1]
        todo = f"`useradd --system {NAME}` has to succeed, or {another} takes one that is there"
        raise StaysRoot(f"no user could be made for it ({said}); {todo}")
    print(f"Made the system user {NAME}, as whom AgentOps runs.", flush=True)  # noqa: T201 - it stays on the machine
    return found


def _group() -> list[str]:
    with contextlib.suppress(KeyError):
        return ["--gid", str(grp.getgrnam(NAME).gr_gid)]
    return ["--user-group"]


def _check(user: User, state: Path, argv: Sequence[str]) -> None:
    """Everything that AgentOps needs works for the user as it does for root. Raises StaysRoot."""
    port = _port(argv)
    if 0 < port < (first := _first_free_port()):
        another = user_access.starting(f"PORT={max(first, UNPRIVILEGED)}")
        raise StaysRoot(f"port {port} is for root alone; {another} runs as {user.name}")
    if said := user_access.why_no_access(user, state) or user_access.weaker_sandbox(user):
        raise StaysRoot(said)


def _port(argv: Sequence[str]) -> int:
    """As far as it can be read here; ``up`` itself says what is wrong with it."""
    words = [word for arg in argv for word in arg.split("=", 1)]
    named = words[words.index("--port") + 1 :] if "--port" in words else [os.environ.get("PORT", "")]
    return int(named[0]) if named and named[0].isdigit() else 0


def _first_free_port() -> int:
    try:
        return int(FIRST_FREE_PORT.read_text())
    except (OSError, ValueError):
        return 1024


def _hand_over(user: User, state: Path) -> None:
    try:
        handover.give(state, user.uid, user.gid)
    except handover.InUse:
        if _owner(state) is None:  # where it is theirs, `up` says the same
            raise EmbeddedError(f"already running on {state}: stop it or set AGENTOPS_STATE") from None
    except handover.NotOurs as error:
        raise StaysRoot(f"{error}; {user_access.starting(user_access.OWN_STATE)} takes a folder of its own") from None
    except OSError as error:
        said = f"{error.filename or state} cannot be given to {user.name} ({error.strerror})"
        raise StaysRoot(f"{said}; {user_access.starting(user_access.OWN_STATE)} takes another folder") from None


def _become(user: User, state: Path) -> None:
    user.become()
    home = user.home if Path(user.home).is_dir() else str(state)
    os.environ |= {"AGENTOPS_STATE": str(state), "HOME": home, "USER": user.name, "LOGNAME": user.name}
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(state / "pycache"))  # beside the code only root may write
    temporary = os.environ.get("TMPDIR", "")
    unusable = {"TMPDIR"} if temporary and not os.access(temporary, os.W_OK | os.X_OK) else set()
    for name in [name for name in os.environ if name in unusable or name.startswith(("XDG_", "SUDO_"))]:
        del os.environ[name]
