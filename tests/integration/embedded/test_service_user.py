"""Who AgentOps is when root starts it, tried for real: a copy of the code that others may read, and root's own start.

What `up` would start afterwards is left out here; the walk through the README has it (`make walk`).
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentops.embedded.process import nobody
from agentops.embedded.root import service_user, user_access
from agentops.embedded.root.user_access import User

pytestmark = [
    pytest.mark.spec("X1"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]

ROOT = Path(__file__).parents[3]
SOMEBODY = "daemon"
PROGRAM = """
import json, os, sys
from agentops.embedded import EmbeddedError
from agentops.embedded.root import service_user
try:
    service_user.give_up_root(sys.argv)
except EmbeddedError as error:
    sys.exit(str(error))
print(service_user.why_root, file=sys.stderr)
state = os.environ.get("AGENTOPS_STATE", "")
made = os.path.join(state, "run")
if sys.argv[1] in service_user.TOUCHING:
    os.mkdir(made)
with service_user.as_caller():
    called = os.geteuid()
names = ("AGENTOPS_STATE", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR")
print(json.dumps({"users": os.getresuid(), "groups": os.getgroups(), "called": called, "argv": sys.argv[1:],
                  "child": int(os.popen("id -u").read()), "environ": {name: os.environ.get(name) for name in names}}))
"""


def interpreter() -> str:
    """One that every user may run: the suite's own may lie in somebody's home."""
    return next(path for path in (os.path.realpath(sys.executable), "/usr/bin/python3") if _is_for_all(Path(path)))


def _is_for_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ao-own-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        code = Path(folder, "code")
        for name in ("agentops", "loops"):
            shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("__pycache__"))
        (code / "manage.py").write_text(PROGRAM)
        yield Path(folder)


def start(place: Path, *words: str, before: tuple[str, ...] = (), **environ: str) -> subprocess.CompletedProcess[str]:
    state = {"AGENTOPS_STATE": str(place / "state"), "AGENTOPS_USER": SOMEBODY}
    argv = [*before, interpreter(), str(place / "code/manage.py"), *words]
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return subprocess.run(
        argv, cwd=place, env={"PATH": path, **state, **environ}, capture_output=True, text=True, check=False, timeout=60
    )


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def of(name: str) -> pwd.struct_passwd:
    return pwd.getpwnam(name)


def test_up_becomes_the_user_for_good_and_the_folder_is_theirs(place: Path) -> None:
    done = start(place, "up", "--port", "8123", XDG_RUNTIME_DIR="/run/user/0", TMPDIR="/root")
    found = told(done)
    assert found["users"] == [of(SOMEBODY).pw_uid] * 3
    assert found["called"] == of(SOMEBODY).pw_uid, "nothing is left of root"
    assert 0 not in found["groups"]
    assert found["argv"] == ["up", "--port", "8123"]
    assert found["environ"]["AGENTOPS_STATE"] == str(place / "state")
    assert found["environ"]["USER"] == found["environ"]["LOGNAME"] == SOMEBODY
    assert found["environ"]["TMPDIR"] is found["environ"]["XDG_RUNTIME_DIR"] is None
    assert {path.stat().st_uid for path in (place / "state", *(place / "state").iterdir())} == {of(SOMEBODY).pw_uid}
    assert done.stderr.strip() == ""


def test_a_folder_that_is_somebodys_makes_root_that_user(place: Path) -> None:
    (place / "state").mkdir()
    os.chown(place / "state", of(SOMEBODY).pw_uid, of(SOMEBODY).pw_gid)
    assert told(start(place, "up", AGENTOPS_USER=""))["users"] == [of(SOMEBODY).pw_uid] * 3


def test_who_wants_root_gets_root_and_no_sermon(place: Path) -> None:
    done = start(place, "up", AGENTOPS_USER="root")
    assert told(done)["users"] == [0, 0, 0]
    assert done.stderr.strip() == ""


def test_a_user_that_is_not_there_is_named(place: Path) -> None:
    done = start(place, "up", AGENTOPS_USER="nobody-at-all")
    assert done.returncode == 1
    assert done.stderr.strip() == "AGENTOPS_USER: there is no user nobody-at-all on this machine"


def stays_root(place: Path, *words: str, **more: Any) -> str:
    """The one sentence, and nothing was touched."""
    (place / "state").mkdir(exist_ok=True)
    done = start(place, *words, **more)
    assert told(done)["users"] == [0, 0, 0]
    assert (place / "state").stat().st_uid == 0
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("AgentOps runs as root: ")
    return done.stderr


def test_a_port_for_root_alone_keeps_root(place: Path) -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if first > 80:
        assert "port 80 is for root alone" in stays_root(place, "up", "--port=80")
        assert "port 80 is for root alone" in stays_root(place, "up", PORT="80")


def test_code_that_nobody_else_can_reach_keeps_root(place: Path) -> None:
    (place / "code").chmod(0o700)
    assert f"the user {SOMEBODY} may not enter {place / 'code'}, where " in stays_root(place, "up")
    (place / "code").chmod(0o755)
    (place / "code/loops/ids.py").chmod(0o600)
    closed, code = place / "code/loops/ids.py", place / "code/loops"
    assert f"may not read {closed}: `chmod -R a+rX {code}`" in stays_root(place, "up")


def test_a_checkout_that_nobody_else_can_reach_names_the_command_that_moves_it(place: Path) -> None:
    (place / "code/Makefile").touch()
    (place / "code").chmod(0o700)
    command = f"`mv {place / 'code'} /opt/agentops && cd /opt/agentops && make run`"
    assert command in stays_root(place, "up")


def test_a_state_folder_that_nobody_else_can_reach_keeps_root(place: Path) -> None:
    (place / "closed").mkdir(mode=0o700)
    said = start(place, "up", AGENTOPS_STATE=str(place / "closed/state")).stderr
    assert f"may not enter {place / 'closed'}, where {place / 'closed/state'} lies" in said


def test_a_folder_that_others_use_as_well_is_not_taken(place: Path) -> None:
    (place / "state").mkdir()
    (place / "state/letters").mkdir()
    assert "holds other things as well (letters)" in stays_root(place, "up")


def test_a_folder_on_which_root_runs_is_not_taken_from_under_it(place: Path) -> None:
    (place / "state").mkdir()
    with (place / "state/up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = start(place, "up")
    assert done.returncode == 1
    assert done.stderr.strip() == f"already running on {place / 'state'}: stop it or set AGENTOPS_STATE"
    assert (place / "state").stat().st_uid == (place / "state/up.lock").stat().st_uid == 0


@pytest.mark.spec("I7")
def test_the_sandbox_of_commands_is_worth_more_than_another_user(place: Path) -> None:
    shutil.copy("/usr/bin/bwrap", place / "bwrap")
    (place / "bwrap").chmod(0o700)
    only_root = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
    shown = f'mount --bind {place / "bwrap"} /usr/bin/bwrap && exec "$@"'
    said = stays_root(place, "up", before=(*only_root, shown, "only-root"))
    assert "only root can make the full sandbox of commands here" in said


def before(place: Path, program: str, mode: int, other: str = "") -> dict[str, Any]:
    """A start for which ``program`` is another, or has another mode, on a machine that has no user for us yet."""
    shutil.copy(other or program, place / "other")
    (place / "other").chmod(mode)
    users = Path("/etc/passwd").read_text().splitlines(keepends=True)
    (place / "users").write_text("".join(line for line in users if not line.startswith(f"{service_user.NAME}:")))
    binds = f"mount --bind {place}/other {program} && mount --bind {place}/users /etc/passwd"
    private = ("unshare", "--mount", "--propagation", "private", "sh", "-c", f'{binds} && exec "$@"', "other")
    return {"before": private, "AGENTOPS_USER": ""}


def closed(path: Path, mode: int) -> dict[str, Any]:
    path.chmod(mode)
    return {}


def other_state(path: Path, mode: int) -> dict[str, Any]:
    path.mkdir(mode=mode)
    (path / "letters").mkdir()
    return {"AGENTOPS_STATE": str(path if mode & 0o1 else path / "state")}


USERADD = shutil.which("useradd", path="/usr/sbin:/sbin") or ""
OWN_STATE = "AGENTOPS_STATE=/var/lib/agentops agentops up"
HINDRANCES: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "a port": (lambda place: {"PORT": "80"}, "PORT=8000 agentops up"),
    "code": (lambda place: closed(place / "code", 0o700), "chmod a+x {place}/code"),
    "a file": (lambda place: closed(place / "code/loops/ids.py", 0o600), "chmod -R a+rX {place}/code/loops"),
    "a folder": (lambda place: closed(place / "code/loops/engine", 0o711), "chmod -R a+rX {place}/code/loops"),
    "the state folder": (lambda place: other_state(place / "theirs", 0o700), OWN_STATE),
    "things of others": (lambda place: other_state(place / "theirs", 0o755), OWN_STATE),
    "no useradd": (lambda place: before(place, USERADD, 0o600), "AGENTOPS_USER=NAME agentops up"),
    "a useradd that fails": (
        lambda place: before(place, USERADD, 0o755, "/bin/false"),
        f"useradd --system {service_user.NAME}",
    ),
    "the sandbox": (lambda place: before(place, "/usr/bin/bwrap", 0o700) | {"AGENTOPS_USER": SOMEBODY}, ""),
}


@pytest.mark.parametrize("what", HINDRANCES)
def test_whatever_keeps_root_its_sentence_names_a_command_that_helps(place: Path, what: str) -> None:
    hinder, command = HINDRANCES[what]
    if what == "a port" and service_user._first_free_port() <= 80:
        pytest.skip("every port is for everybody here")
    done = start(place, "up", **hinder(place))
    (said,) = done.stderr.splitlines()
    assert said.startswith("AgentOps runs as root: ")
    assert f"`{command.format(place=place)}" in said


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("anchor", False),
        ("backup", True),
        ("restore", True),
        ("prune", False),
        ("doctor", False),
        ("seed_demo", False),
        ("monitor", False),
    ],
)
def test_a_command_makes_no_file_of_roots_and_uses_those_that_its_caller_names(
    place: Path, command: str, kept: bool
) -> None:
    (place / "state").mkdir()
    os.chown(place / "state", of(SOMEBODY).pw_uid, of(SOMEBODY).pw_gid)
    found = told(start(place, command, AGENTOPS_USER=""))
    uid = of(SOMEBODY).pw_uid
    assert found["users"] == [uid, uid, 0 if kept else uid]
    assert (place / "state/run").stat().st_uid == uid
    assert found["called"] == (0 if kept else uid)
    assert found["child"] == uid, "what it starts is that user altogether"


def test_commands_that_touch_no_file_and_folders_of_root_stay_as_they_are(place: Path) -> None:
    (place / "state").mkdir()
    assert told(start(place, "backup", AGENTOPS_USER=""))["users"] == [0, 0, 0]
    os.chown(place / "state", of(SOMEBODY).pw_uid, of(SOMEBODY).pw_gid)
    assert told(start(place, "makemigrations", AGENTOPS_USER=""))["users"] == [0, 0, 0]
    assert told(start(place, "up", "--help", AGENTOPS_USER=""))["users"] == [0, 0, 0]


def test_who_cannot_be_asked_lacks_something(tmp_path: Path) -> None:
    """No process can become somebody with such a group."""
    nobody_else = User("x", *nobody(), groups=(2**40,))
    said = "what x may do could not be tried; `AGENTOPS_USER=NAME make run` tries another"
    assert user_access.why_no_access(nobody_else, tmp_path) == said
    assert "could not be tried" not in user_access.why_no_access(User("x", *nobody()), tmp_path)
