"""Commands are held by the sandbox whatever they try (SPEC I7, I8, K1; attack list D), in the real sandbox.

A missing bwrap is a failure, not a skip: without it the product refuses commands.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loops.engine.values import Access, FailureKind
from loops.tools.limits import MIB, Limits
from loops.tools.policy import AccessRule
from loops.tools.sandbox import capability
from tests.security import processes
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I7")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    assert capability.probe().level == capability.FULL, capability.probe().warning
    return Desk(tmp_path, level=capability.probe())


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
    """Row 35."""
    code = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"
    result = desk.run("run_command", argv=["python3", "-c", code])
    assert "ConnectionRefusedError" in result.content
    assert not desk.shell(f"exec 3<>/dev/tcp/127.0.0.1/{listener}").ok


def test_control_the_same_code_reaches_the_listener_outside() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "code",
    [
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('8.8.8.8', 53))",
        "socket.create_connection(('1.1.1.1', 443), 2)",
        "socket.getaddrinfo('example.org', 443)",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
    ],
)
def test_no_network_of_any_kind(desk: Desk, code: str) -> None:
    result = desk.run("run_command", argv=["python3", "-c", f"import socket; {code}; print('reached')"])
    assert "reached" not in result.content.split("[stderr]")[0].split("[stdout]")[-1]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/root/.ssh",
        "/home/root",
        "/var/run/docker.sock",
        "/run/dbus",
        "/proc/1/root/etc/shadow",
        "/proc/1/environ",
        "/sys/kernel",
        "/dev/sda",
        "/dev/vda",
        "/dev/mem",
        "/boot",
        "/opt",
        "/mnt",
    ],
)
def test_the_host_is_not_there(desk: Desk, path: str) -> None:
    """Row 36."""
    assert not desk.run("run_command", argv=["bash", "-c", f"ls {path}/ || cat {path}"]).ok


def test_only_the_workspace_and_temporary_folders_can_be_written(desk: Desk) -> None:
    places = "/usr/x /etc/x /x /dev/x /bin/x /proc/sys/kernel/hostname /sys/x /home/x"
    result = desk.shell(f"for p in {places}; do (echo x > $p) 2>/dev/null && echo wrote $p; done; true")
    assert "wrote" not in result.content
    assert desk.shell("echo x > /workspace/a && echo x > /tmp/a && echo x > ~/a && echo x > /dev/shm/a").ok
    assert (desk.workspace / "a").read_text() == "x\n"


def test_no_processes_of_the_host(desk: Desk) -> None:
    result = desk.shell(f"ls /proc | grep -c '^[0-9]'; ls /proc/{os.getpid()}/cwd; kill -0 {os.getpid()}")
    assert int(result.content.split("[stdout]\n")[1].split("\n")[0]) < 10
    assert not result.ok


def test_no_secret_of_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 31 and 36."""
    monkeypatch.setenv("AGENTOPS_SECRET_KEY", "s3cret-value")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret-value")
    result = desk.shell("env; cat /proc/*/environ | tr '\\0' '\\n'; set")
    assert "s3cret-value" not in result.content
    assert "HOME=/home/agent" in result.content


def test_the_environment_is_clean_in_every_call(tmp_path: Path) -> None:
    """Row 31: names that run code are dropped, also from the project's own list; nothing lasts."""
    bad = {"BASH_ENV": "/workspace/evil", "LD_PRELOAD": "/workspace/x.so", "PATH": ".", "GIT_SSH_COMMAND": "evil"}
    bad |= {"PYTHONSTARTUP": "evil", "A B": "x", "PROMPT_COMMAND": "evil"}
    desk = Desk(tmp_path, level=capability.probe(), environment={"MODE": "test", **bad})
    (desk.workspace / "evil").write_text("echo evil ran\n")
    (desk.workspace / "ls").write_text("#!/bin/bash\necho evil ran\n")
    (desk.workspace / "ls").chmod(0o755)
    result = desk.shell("echo MODE=$MODE; env | grep -E 'evil|x.so'; ls; export LATER=1")
    assert "MODE=test" in result.content
    assert "evil ran" not in result.content
    assert "PRELOAD" not in result.content
    assert "LATER" not in desk.shell("env").content


@pytest.mark.spec("X1")
def test_nothing_of_our_own_interpreter_is_there(desk: Desk) -> None:
    """Neither by name nor by path, nor in what the environment says; the machine's Python is what runs."""
    for name in ("python", "python3", "pytest", "celery", "django-admin"):
        found = desk.shell(f"command -v {name}").content.partition("[stdout]\n")[2].strip()
        assert not found or found.startswith(("/usr/", "/bin/")), found
    code = "import sys, os; print(sys.prefix, sys.base_prefix, sys.path, os.environ)"
    seen = desk.run("run_command", argv=["python3", "-c", code]).content
    assert sys.prefix not in seen
    assert "'/usr/lib/python3" in seen
    for module in ("django", "celery", "loops", "agentops"):
        assert "No module named" in desk.run("run_command", argv=["python3", "-c", f"import {module}"]).content
    for path in {sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])}:
        assert not desk.shell(f"ls {path}").ok, path


@pytest.mark.spec("X1")
def test_a_workspace_may_bring_its_own_environment(desk: Desk) -> None:
    """First on the path, and only a person changes it."""
    programs = desk.workspace / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "pytest").write_text("#!/bin/sh\necho its own pytest\n")
    (programs / "pytest").chmod(0o755)
    assert desk.shell("pytest").content.endswith("its own pytest\n")
    assert not desk.shell("echo evil > .venv/bin/pytest").ok
    assert not desk.run("write_file", path=".venv/bin/pytest", content="evil").ok
    assert "its own" in (programs / "pytest").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "unshare -U true",
        "unshare -r true",
        "mount -t tmpfs none /tmp",
        "umount /proc",
        "chroot / true",
        "nsenter -t 1 -a true",
        "bwrap --ro-bind / / true",
        "python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(0,0,0,0) != 0)'",
        "setpriv --reuid 0 true",
        "su -c true",
        "chown 0 .",
        "mknod d b 254 0",
    ],
)
def test_no_more_rights(desk: Desk, command: str) -> None:
    assert not desk.shell(command).ok


def test_system_calls_that_are_filtered(desk: Desk) -> None:
    """By number, on this machine: refused by the filter (EPERM), not only by missing rights."""
    calls = "{'ptrace': 101, 'bpf': 321, 'io_uring_setup': 425, 'keyctl': 250, 'unshare': 272, 'userfaultfd': 323}"
    if os.uname().machine == "aarch64":
        calls = "{'ptrace': 117, 'bpf': 280, 'io_uring_setup': 425, 'keyctl': 219, 'unshare': 97, 'userfaultfd': 282}"
    code = (
        f"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor name, number in {calls}.items():\n"
        "    result = libc.syscall(number, 0, 0, 0, 0, 0)\n    print(name, result, ctypes.get_errno())\n"
        "print('clone3', libc.syscall(435, 0, 0), ctypes.get_errno())\n"
    )
    lines = desk.run("run_command", argv=["python3", "-c", code]).content.split("[stdout]\n")[1].split("\n")
    assert [line.split()[1:] for line in lines[:6]] == [["-1", "1"]] * 6
    assert lines[6] == "clone3 -1 38"


def test_threads_and_children_still_work(desk: Desk) -> None:
    """The filter must not break ordinary programs."""
    code = (
        "import threading, subprocess, multiprocessing, asyncio, socket\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.check_output(['echo', 'child']).decode())\n"
        "a, b = socket.socketpair(); s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s')\n"
        "async def main():\n"
        "    p = await asyncio.create_subprocess_exec('true'); return await p.wait()\n"
        "print('exit', asyncio.run(main()))\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1]))\n"
    )
    content = desk.run("run_command", argv=["python3", "-c", code]).content
    assert all(word in content for word in ("thread", "child", "exit 0", "[1]")), content


# --- what a command can use up --------------------------------------------------------------------------------------


@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_a_fork_bomb_is_contained(tmp_path: Path) -> None:
    """Row 33."""
    desk = Desk(tmp_path, level=capability.probe(), limits=Limits(processes=40))
    marker = processes.new_marker()
    result = desk.shell(f"b() {{ b | b & }}; b; sleep {marker}", timeout_s=2)
    assert result.error.startswith("stopped")
    assert processes.alive(marker) == []


def test_endless_output_is_stopped_while_reading(desk: Desk) -> None:
    result = desk.shell("yes", timeout_s=60)
    assert result.error == f"stopped: more than {10 * MIB} bytes of output"
    assert result.output is not None
    assert result.output.size == 10 * MIB
    assert len(result.content) < 17_000
    assert sum(len(chunk) for _, chunk in desk.streamed) == 10 * MIB


def test_memory_of_one_process_is_limited(desk: Desk) -> None:
    result = desk.run("run_command", argv=["python3", "-c", "x = bytearray(10 << 30)"])
    assert "MemoryError" in result.content


def test_memory_of_the_whole_tree_is_limited(tmp_path: Path) -> None:
    desk = Desk(tmp_path, level=capability.probe(), limits=Limits(memory_bytes=200 * MIB))
    code = "import os\nfor _ in range(4): os.fork()\nx = bytearray(50 << 20)\nimport time; time.sleep(60)"
    result = desk.run("run_command", argv=["python3", "-c", code], timeout_s=60)
    assert "bytes of memory, the limit is" in result.error


def test_a_busy_loop_ends(tmp_path: Path) -> None:
    desk = Desk(tmp_path, level=capability.probe(), limits=Limits(cpu_s=1))
    result = desk.shell("while :; do :; done", timeout_s=100)
    assert result.error == "exit code 152, processor time used up"


def test_a_sparse_file_of_five_gigabytes(desk: Desk) -> None:
    """Row 29."""
    result = desk.shell("truncate -s 5G big; ls -la big; head -c 5G /dev/zero > big2")
    assert not result.ok
    assert "File too large" in result.content or "size limit" in result.content
    assert sum(path.stat().st_size for path in desk.workspace.iterdir()) <= 513 * MIB


def test_many_files_are_stopped(tmp_path: Path) -> None:
    desk = Desk(tmp_path, level=capability.probe(), limits=Limits(workspace_files=2_000))
    code = "import time\nfor n in range(1_000_000): open(f'f{n}', 'w').close()\ntime.sleep(60)"
    result = desk.run("run_command", argv=["python3", "-c", code], timeout_s=60)
    assert "more than 2000 files" in result.error


def test_temporary_folders_have_a_size(tmp_path: Path) -> None:
    desk = Desk(tmp_path, level=capability.probe(), limits=Limits(tmp_bytes=MIB))
    for place in ("/tmp", "~", "/dev/shm"):
        assert "No space left" in desk.shell(f"head -c 3000000 /dev/zero > {place}/x").content


# --- nothing stays --------------------------------------------------------------------------------------------------


@pytest.mark.spec("I8", "K1")
def test_a_daemon_does_not_survive_its_command(desk: Desk) -> None:
    """Row 34: double fork, own session, all descriptors closed."""
    assert processes.left_by_a_daemon(desk) == []


@pytest.mark.spec("I8", "K1")
def test_once_a_call_is_cancelled_its_whole_tree_is_dead(desk: Desk) -> None:
    assert processes.left_after_cancelling(desk, 5) == []


@pytest.mark.spec("I8")
def test_kill_nine_of_the_worker_leaves_nothing(tmp_path: Path) -> None:
    """Row 34."""
    marker = processes.new_marker()
    with processes.worker(tmp_path, capability.FULL, marker, 3) as worker:
        worker.kill()
        processes.wait_until_gone(marker)


# --- policy files and approved bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "echo x > AGENTS.md",
        "mkdir .claude && echo x > .claude/settings.json",
        "echo x > .git/hooks/pre-commit",
        "mv .git other && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "rm -rf .git && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "mv .git other && mkdir -p t/hooks && echo x > t/hooks/pre-commit && ln -s t .git",
        "mv .git other && ln -s /etc .git",
        "rm -f .mcp.json; echo x > .mcp.json; ln -sf /etc/passwd .agentops.toml",
    ],
)
def test_commands_cannot_change_what_steers_agents(desk: Desk, command: str) -> None:
    """Row 19: existing ones, missing ones, and by swapping the folder above."""
    hooks = desk.workspace / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-commit").write_text("mine\n")
    (desk.workspace / ".mcp.json").write_text("mine\n")
    desk.shell(command)
    assert [path.name for path in hooks.iterdir()] == ["post-commit"]
    assert (hooks / "post-commit").read_text() == "mine\n"
    assert (desk.workspace / ".mcp.json").read_text() == "mine\n"
    for name in ("AGENTS.md", "CLAUDE.md", ".claude", ".agentops", ".agentops.toml", "agentops.toml"):
        assert not os.path.lexists(desk.workspace / name), name


def test_control_without_the_list_the_command_changes_them(tmp_path: Path) -> None:
    desk = Desk(tmp_path, level=capability.probe(), limits=Limits(protected=()))
    assert desk.shell("echo x > AGENTS.md").ok
    assert (desk.workspace / "AGENTS.md").exists()


def test_git_works_beside_the_masks(desk: Desk) -> None:
    commands = ("git init -q", "echo x > a", "git add -A", "git commit -qm one", "git status --short", "git ls-files")
    result = desk.shell(" && ".join(commands))
    assert result.ok, result.content
    assert result.content.endswith("[stdout]\na\n")


@pytest.mark.spec("Q5")
def test_approved_bytes_run_or_nothing(tmp_path: Path) -> None:
    """Row 2: the script is rewritten while the approval waits."""
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.probe())
    script = desk.workspace / "run.sh"
    script.write_text("echo approved\n")
    judgement = desk.judge("run_command", command="bash run.sh")
    assert judgement.access is Access.ASK
    assert "approved" in str(judgement.view["scripts"])
    script.write_text("echo evil\n")
    assert desk.service.subject(desk.call("run_command", command="bash run.sh"), desk.context) != judgement.subject
    script.write_text("echo approved\n")
    desk.judge("run_command", command="bash run.sh")
    script.write_text("echo evil\n")
    result = desk.shell("bash run.sh")
    assert (result.ok, result.kind) == (False, FailureKind.CRITICAL)
    assert "run.sh" in result.error


@pytest.mark.spec("Q5")
def test_every_script_that_changed_is_named(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.probe())
    names = ("one.sh", "same.sh", "two.sh")
    for name in names:
        (desk.workspace / name).write_text("echo approved\n")
    command = "; ".join(f"bash {name}" for name in names)
    desk.judge("run_command", command=command)
    for name in ("one.sh", "two.sh"):
        (desk.workspace / name).write_text("echo evil\n")
    assert "changed since it was approved: one.sh, two.sh;" in desk.shell(command).error


@pytest.mark.spec("Q5")
def test_a_script_swapped_after_the_check_does_not_run(tmp_path: Path) -> None:
    """The command itself swaps the file first: the sealed bytes are mounted over the name."""
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.probe())
    (desk.workspace / "run.sh").write_text("echo approved\n")
    command = "(echo 'echo evil' > run.sh; rm -f run.sh; mv x run.sh) 2>/dev/null; bash run.sh"
    desk.judge("run_command", command=command)
    assert desk.shell(command).content.endswith("approved\n")


def test_control_without_approval_the_swap_runs(desk: Desk) -> None:
    (desk.workspace / "run.sh").write_text("echo approved\n")
    assert desk.shell("echo 'echo evil' > run.sh; bash run.sh").content.endswith("evil\n")


def test_arguments_of_other_tools_are_never_a_shell(desk: Desk) -> None:
    """Row 30."""
    for text in ("; touch made", "$(touch made)", "`touch made`", "\ntouch made"):
        desk.run("search_files", pattern=text)
        desk.run("write_file", path="a.txt", content=text)
        desk.run("run_command", argv=["echo", text])
        desk.run("run_tests", command="true", paths=[text.strip()])
    assert not (desk.workspace / "made").exists()


@pytest.mark.parametrize("command", ["find / -name shadow -exec cat {} +", "echo /etc/shadow | xargs sh -c 'cat $0'"])
def test_wrappers_are_held_too(desk: Desk, command: str) -> None:
    """Row 32."""
    assert "root:" not in desk.shell(command).content


# --- the probe ------------------------------------------------------------------------------------------------------


def test_the_probe_tries_every_wall_and_says_so() -> None:
    level = capability.probe(fresh=True)
    assert (level.level, level.warning) == (3, "")
    assert all(check.passed for check in level.checks)
    assert len(level.checks) >= 15


@pytest.mark.parametrize("name", [name for name in capability._DETAIL if name != "system_calls"])
def test_one_leak_is_enough_to_refuse_commands(name: str) -> None:
    level = capability._find_level(lambda: dict.fromkeys(capability._DETAIL, True) | {name: False}, dict)
    assert level.level == capability.FILES_ONLY
    assert name in level.warning


def test_a_leak_leaves_the_weaker_sandbox_and_says_so() -> None:
    level = capability._find_level(
        lambda: dict.fromkeys(capability._DETAIL, True) | {"network": False},
        lambda: dict.fromkeys(capability._CONFINED_DETAIL, True),
    )
    assert level.level == capability.CONFINED
    assert "the sandbox leaks (network)" in level.warning


def test_without_any_sandbox_commands_are_refused_loudly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(capability, "bwrap_path", lambda: "")
    monkeypatch.setattr(capability.confinement, "missing", lambda: "Landlock is missing")
    level = capability._find_level()
    assert (level.level, "bubblewrap is not installed" in level.warning) == (1, True)
    assert not Desk(tmp_path, level=level).shell("touch made").ok
    assert not (tmp_path / "ws-1" / "made").exists()


def test_control_the_probe_notices_a_sandbox_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the probe's script without bwrap: most walls must be reported open."""
    original = capability.prepare

    def outside(*arguments: object) -> object:
        prepared = original(*arguments)  # type: ignore[arg-type]
        inner = arguments[3]
        assert isinstance(inner, dict)
        words = [f"{name}={value}" for name, value in inner.items()]
        script = f'cd "$PROBE_OUTSIDE/workspace"\n{capability._PROBE}'
        prepared.argv = ["/usr/bin/env", *words, "AGENTOPS_SECRET=1", "/bin/bash", "-c", script]
        return prepared

    script = capability._PROBE.replace("try write_outside touch /usr/probe /etc/probe /probe", "try write_outside true")
    script = script.replace("try kernel_mounts mount -t tmpfs none /tmp", "try kernel_mounts true")
    monkeypatch.setattr(capability, "_PROBE", script)
    monkeypatch.setattr(capability, "prepare", outside)
    level = capability._find_level(second=dict)
    assert level.level == capability.FILES_ONLY
    failed = {check.name for check in level.checks if not check.passed}
    assert {"network", "host_folder", "host_processes", "host_environment", "system_calls"} <= failed
