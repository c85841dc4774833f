"""Commands are held without namespaces too, by Landlock and seccomp (SPEC I7, I8, K1, X1), on the real kernel.

A kernel without it is a failure, not a skip: this is what a machine without bubblewrap has.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from loops.engine.values import Access
from loops.tools.limits import MIB, Limits
from loops.tools.policy import AccessRule
from loops.tools.sandbox import capability, seccomp
from loops.tools.sandbox.capability import CONFINED, SandboxLevel
from loops.tools.sandbox.command import Sandboxed, environment
from loops.tools.sandbox.confined import confinement, trial
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from tests.security import processes
from tests.stack import wait_until
from tests.unit.tools.harness import Desk, reachable

pytestmark = pytest.mark.spec("I7", "X1")
ROOT = Path(__file__).parents[2]
LEVEL = SandboxLevel(CONFINED, "landlock", (), "The weaker sandbox is in force: bubblewrap is not installed.")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return _desk(tmp_path)


def _desk(folder: Path, limits: Limits | None = None) -> Desk:
    return Desk(reachable(folder), level=LEVEL, limits=limits)


# --- which one is in force ------------------------------------------------------------------------------------------


def test_without_bubblewrap_the_probe_proves_the_weaker_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "bwrap_path", lambda: "")
    level = capability._find_level()
    assert (level.level, level.name) == (CONFINED, "landlock"), level.warning
    assert "bubblewrap is not installed" in level.warning
    assert all(check.passed for check in level.checks)
    assert len(level.checks) >= 18


@pytest.mark.parametrize("name", capability._CONFINED_DETAIL)
def test_one_leak_of_the_weaker_sandbox_is_enough_to_refuse_commands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability, "bwrap_path", lambda: "")
    held = dict.fromkeys(capability._CONFINED_DETAIL, True)
    level = capability._find_level(second=lambda: held | {name: False})
    assert level.level == capability.FILES_ONLY
    assert name in level.warning


def test_control_without_the_walls_the_attempts_succeed(tmp_path: Path) -> None:
    """The same attempts by a process that nothing holds: what they try is really there to be reached."""
    with socket.socket() as tcp, subprocess.Popen(["sleep", "60"]) as other:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        (tmp_path / "file").write_text("x")
        places = {"port": tcp.getsockname()[1], "datagrams": 9, "socket": "", "abstract": "\0none"}
        places |= {"file": str(tmp_path / "file"), "folder": str(tmp_path), "process": other.pid}
        code = f"from loops.tools.sandbox.confined import trial; trial.attempt({places!r})"
        words = [sys.executable, "-c", code]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}) as free:
            said, _ = free.communicate(timeout=60)
        other.kill()
    assert free.returncode == 0
    assert processes.segments_of(free.pid) == [], "none is left to the machine"
    reached = {line.split()[0] for line in said.splitlines() if line.endswith("open")}
    assert {"network", "datagrams", "host_files", "host_folder", "write_outside", "metadata_outside"} <= reached
    assert {"host_processes", "signals", "memory_of_others", "limits_of_others", "shared_memory"} <= reached
    assert {"kernel_calls", "limits_missing"} <= reached
    assert set(trial.TRIALS) | {"end"} == set(capability._CONFINED_DETAIL)


def test_an_old_kernel_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "bwrap_path", lambda: "")
    monkeypatch.setattr(confinement.landlock, "version", lambda: 5)
    level = capability._find_level()
    assert level.level == capability.FILES_ONLY
    assert "version 5, version 6 is needed" in level.warning


def test_every_command_asks(tmp_path: Path) -> None:
    allowed = [AccessRule(Access.ALLOW)]
    judgement = Desk(tmp_path, allowed, level=LEVEL).judge("run_command", command="true")
    assert judgement.access is Access.ASK
    assert judgement.view["sandbox"] == "landlock"
    assert judgement.subject["sandbox_level"] == CONFINED


# --- what a command can reach ---------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server.getsockname()[1]
        with pytest.raises(BlockingIOError):
            server.accept()


def test_no_way_to_a_listener_on_loopback(desk: Desk, listener: int) -> None:
    code = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"
    assert "not supported" in desk.run("run_command", argv=["python3", "-c", code]).content
    assert not desk.shell(f"exec 3<>/dev/tcp/127.0.0.1/{listener}").ok


def test_landlock_alone_keeps_it_from_the_network_as_well(
    desk: Desk, listener: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two walls: the filter gives it no socket, and a socket would reach nothing."""
    lenient = seccomp._program(platform.machine(), {}, [], seccomp._FAMILIES)
    monkeypatch.setattr(confinement, "alone_bytes", lambda: lenient)
    code = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"
    assert "Permission denied" in desk.run("run_command", argv=["python3", "-c", code]).content


def test_programs_cannot_be_changed_by_their_own_owner(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where Python lies in the home of the user that runs AgentOps."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "program").write_text("mine")
    if os.getuid() == 0:
        for path in (tmp_path / "python", tmp_path / "python" / "program"):
            os.chown(path, 62534, 62534)
    monkeypatch.setattr(confinement, "_READABLE", (*confinement._READABLE, str(tmp_path / "python")))
    assert desk.shell(f"cat {tmp_path}/python/program").content.endswith("mine")
    assert not desk.shell(f"echo evil > {tmp_path}/python/program || rm {tmp_path}/python/program").ok
    assert not desk.shell(f"touch {tmp_path}/python/other").ok
    assert (tmp_path / "python" / "program").read_text() == "mine"


def test_it_holds_no_descriptor_of_ours(desk: Desk) -> None:
    code = (
        "import os\n"
        "for number in range(3, 256):\n"
        "    try: print('open', number, os.fstat(number))\n"
        "    except OSError: pass"
    )
    result = desk.run("run_command", argv=["python3", "-c", code])
    assert result.ok
    assert "open" not in result.content


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/passwd", "/root", "/home", "/proc/1/environ", "/tmp", "/sys"])
def test_the_host_cannot_be_read(desk: Desk, path: str) -> None:
    assert not desk.run("run_command", argv=["bash", "-c", f"ls {path}/ || cat {path}"]).ok


def test_only_its_own_folders_can_be_written(desk: Desk, tmp_path: Path) -> None:
    places = f"/usr/x /etc/x /x /dev/x /tmp/x /dev/shm/x {tmp_path}/x"
    result = desk.shell(f"for p in {places}; do (echo x > $p) 2>/dev/null && echo wrote $p; done; true")
    assert "wrote" not in result.content
    assert desk.shell("echo x > a && echo x > $TMPDIR/a && echo x > ~/a && cat ~/a $TMPDIR/a").ok
    assert (desk.workspace / "a").read_text() == "x\n"


def test_modes_and_times_change_inside_and_nowhere_else(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "mine"
    outside.write_text("x")
    outside.chmod(0o640)
    if os.getuid() == 0:
        os.chown(outside, 62534, 62534)
    (desk.workspace / "way").symlink_to(tmp_path)
    work = "touch a && chmod 751 a && chmod u+s a; touch -d @1000 a && ln -s a link && touch -h -d @2000 link"
    assert desk.shell(f"{work} && stat -c %a:%Y a; cp -p a b && stat -c %a:%Y b").content.count("751:1000") == 2
    for path in (outside, "../mine", "way/mine", f"/proc/self/cwd/../{outside.name}"):
        tried = desk.shell(f"chmod 777 {path}; touch -d @1 {path}; chown 0 {path}; setfattr -n user.x -v 1 {path}")
        assert not tried.ok, path
    code = "import os\nos.chdir('..')\nos.chmod('mine', 0o777)"
    assert not desk.run("run_command", argv=["python3", "-c", code]).ok
    assert outside.stat().st_mode & 0o777 == 0o640
    assert outside.stat().st_mtime > 1_000_000


def test_what_others_own_in_its_folder_keeps_its_mode(tmp_path: Path) -> None:
    """A root worker changes modes on a command's behalf, in a folder that is used in place: only of what is the
    command's own. For whoever is not root, all of it is."""
    desk, is_root = Desk(reachable(tmp_path), level=LEVEL, made=False), os.getuid() == 0
    desk.workspace.chmod(0o777)
    theirs = desk.workspace / "theirs"
    theirs.write_text("x")
    theirs.chmod(0o644)
    assert desk.shell("chmod 666 theirs").ok is not is_root
    assert theirs.stat().st_mode & 0o777 == (0o644 if is_root else 0o666)
    assert desk.shell("touch own && chmod 640 own && stat -c %a own").content.count("640") == 1


def test_no_secret_of_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret-value")
    result = desk.shell("env; set; cat /proc/self/environ; echo $PPID; cat /proc/$PPID/environ")
    assert "s3cret-value" not in result.content
    assert sys.prefix not in result.content


def test_ordinary_programs_work(desk: Desk) -> None:
    code = (
        "import threading, subprocess, socket, shutil, os, tempfile\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.check_output(['echo', 'child']).decode())\n"
        "a, b = socket.socketpair()\n"
        "open('x.sh', 'w').write('echo script ran'); os.chmod('x.sh', 0o755); shutil.copy2('x.sh', 'y.sh')\n"
        "with tempfile.NamedTemporaryFile() as file: file.write(b'x')\n"
    )
    assert "child" in desk.run("run_command", argv=["python3", "-c", code]).content
    assert "script ran" in desk.shell("sh ./y.sh && cat <(echo substituted) && echo e > /dev/stderr").content
    git = desk.shell("git init -q && git add -A && git commit -qm one && git ls-files")
    assert git.ok, git.content
    assert "y.sh" in git.content


def test_a_missing_program_says_so(desk: Desk) -> None:
    result = desk.run("run_command", argv=["no-such-program"])
    assert (result.ok, result.exit_code) == (False, 127)
    assert "no-such-program: No such file" in result.content


def test_reports_reach_run_tests(desk: Desk) -> None:
    cases = "<testcase name='a'/><testcase name='b'/><testcase name='c'><failure message='no'/></testcase>"
    document = f"<testsuite name='t' tests='3' failures='1'>{cases}</testsuite>"
    result = desk.run("run_tests", command=f'echo "{document}" > $AGENTOPS_REPORTS/junit.xml')
    assert (result.data.get("passed"), result.data.get("failed")) == (2, 1), result


# --- what a command can use up --------------------------------------------------------------------------------------


@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_a_fork_bomb_is_contained(tmp_path: Path) -> None:
    desk = _desk(tmp_path, Limits(processes=40))
    marker = processes.new_marker()
    result = desk.shell(f"b() {{ b | b & }}; b; sleep {marker}", timeout_s=2)
    assert result.error.startswith("stopped")
    assert processes.alive(marker) == []


@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_processes_are_counted(tmp_path: Path) -> None:
    """From outside by those of the command, since the kernel counts those of all commands together."""
    desk = _desk(tmp_path, Limits(processes=20))
    code = "import subprocess, time\nkept = [subprocess.Popen(['sleep', '60']) for _ in range({})]\ntime.sleep({})"
    assert desk.run("run_command", argv=["python3", "-c", code.format(10, 1)], timeout_s=60).ok
    result = desk.run("run_command", argv=["python3", "-c", code.format(25, 60)], timeout_s=60)
    noticed = "processes and threads, the limit is 20" in result.error  # or the kernel, beside commands of others
    assert not result.ok
    assert noticed or "the sandbox gives at most 20 processes and threads" in result.content, result


@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_a_crowd_that_grows_faster_than_it_is_counted_is_held_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loops.tools.sandbox.process._WATCH_S", 60.0)
    code = (
        "import os, time\n"
        "try:\n    for _ in range(300):\n        if os.fork() == 0: time.sleep(3); os._exit(0)\n"
        "except BlockingIOError: print('refused', flush=True)"
    )
    result = _desk(tmp_path, Limits(processes=20)).run("run_command", argv=["python3", "-c", code], timeout_s=20)
    assert "refused" in result.content, result


def test_memory_is_limited(tmp_path: Path) -> None:
    desk = _desk(tmp_path, Limits(memory_bytes=200 * MIB))
    assert "MemoryError" in desk.run("run_command", argv=["python3", "-c", "x = bytearray(10 << 30)"]).content
    code = "import os\nfor _ in range(4): os.fork()\nx = bytearray(50 << 20)\nimport time; time.sleep(60)"
    result = desk.run("run_command", argv=["python3", "-c", code], timeout_s=60)
    assert "bytes of memory, the limit is" in result.error


def test_files_have_a_size_and_a_number(tmp_path: Path) -> None:
    desk = _desk(tmp_path, Limits(workspace_files=2_000, tmp_bytes=MIB))
    assert not desk.shell("truncate -s 5G big || head -c 5G /dev/zero > big2").ok
    assert "temporary folders" in desk.shell("head -c 3000000 /dev/zero > $TMPDIR/x; sleep 60", timeout_s=60).error
    code = "import time\nfor n in range(1_000_000): open(f'f{n}', 'w').close()\ntime.sleep(60)"
    assert "more than 2000 files" in desk.run("run_command", argv=["python3", "-c", code], timeout_s=60).error


def test_its_temporary_folder_goes_with_it(desk: Desk) -> None:
    place = desk.shell("echo x > $TMPDIR/x; mkdir ~/y; chmod 0 ~/y; dirname $TMPDIR").content.split()[-1]
    assert place.startswith("/")
    assert not Path(place).exists()


# --- nothing stays --------------------------------------------------------------------------------------------------


@pytest.mark.spec("I8", "K1")
def test_a_daemon_does_not_survive_its_command(desk: Desk) -> None:
    assert processes.left_by_a_daemon(desk) == []


@pytest.mark.spec("I8", "K1")
def test_once_a_call_is_cancelled_its_whole_tree_is_dead(desk: Desk) -> None:
    assert processes.left_after_cancelling(desk, 4) == []


WATCHERS = ("worker", "lease wrapper", "outer keeper", "inner keeper")
"""Each is the parent of the next; the command is below the last."""


@pytest.mark.spec("I8")
@pytest.mark.parametrize("killed", WATCHERS)
def test_kill_nine_of_whoever_watches_leaves_nothing(tmp_path: Path, killed: str) -> None:
    marker = processes.new_marker()
    with processes.worker(reachable(tmp_path), CONFINED, marker, 4) as worker:
        target = psutil.Process(worker.pid)
        for _ in range(WATCHERS.index(killed)):
            (target,) = target.children()
        target.kill()
        processes.wait_until_gone(marker)
        wait_until(lambda: not list(tmp_path.glob("agentops-command-*")), "the end of its temporary folder")


# --- policy files and approved bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "echo x > AGENTS.md",
        "mkdir .claude && echo x > .claude/settings.json",
        "echo x > .git/hooks/pre-commit",
        "mv .git other && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "mv .git other && ln -s /etc .git",
        "rm -f .mcp.json; echo x > .mcp.json; ln -sf /etc/passwd .agentops.toml",
    ],
)
def test_what_steers_agents_is_put_back(desk: Desk, command: str) -> None:
    hooks = desk.workspace / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-commit").write_text("mine\n")
    (desk.workspace / ".mcp.json").write_text("mine\n")
    assert "put back, because only a person changes them" in desk.shell(command).content
    assert [path.name for path in hooks.iterdir()] == ["post-commit"]
    assert (desk.workspace / ".mcp.json").read_text() == "mine\n"
    for name in ("AGENTS.md", "CLAUDE.md", ".claude", ".agentops", ".agentops.toml", "agentops.toml"):
        assert not os.path.lexists(desk.workspace / name), name


@pytest.mark.spec("Q5")
def test_approved_bytes_run_or_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "run.sh").write_text("echo evil\n")
    with SafeDirectory(str(workspace)) as opened:
        command = Sandboxed(("bash", "run.sh"), opened, sealed={"run.sh": b"echo approved\n"})
        with pytest.raises(PathRefused, match="changed since it was approved"):
            confinement.prepare(command, Limits(), environment({}))
