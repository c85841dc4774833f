"""Run one prepared command: stream its output, hold it to its limits, and leave no process behind (SPEC I7, I8, K1)."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from loops.engine.ports import OnOutput
from loops.tools.fence import Fence
from loops.tools.limits import Limits
from loops.tools.sandbox.command import Prepared
from loops.tools.sandbox.lease_wrapper import ENDED_BY_LEASE, LeaseWrapper
from loops.tools.sandbox.usage.consumption import Used, measure

_CHUNK = 64 * 1024
_WATCH_S = 0.25
_SELDOMEST_S = 10.0
"""Looking takes a small part of the machine, and is still not put off for longer: what nobody sees has no limit."""
_DEAD_WITHIN_S = 4.0
"""Less than a tool has to clean up before it is cancelled in turn (`loops.tools.execution`)."""


@dataclass(frozen=True, slots=True)
class Finished:
    """``exit_code`` is the command's, 128 + signal when one ended it, -1 when we killed it for ``killed``."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_ms: int
    killed: str = ""


@dataclass(slots=True)
class _Running:
    process: asyncio.subprocess.Process
    limits: Limits
    on_output: OnOutput
    status: int
    """Reading end of the pipe in which the first process is named: of the namespace, or the keeper."""
    kept: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    killed: str = ""
    status_text: bytes = b""
    first: int = 0
    """Host process id of the first process: it ends last, after every other one inside."""
    first_descriptor: int = -1
    ended_by: int = signal.SIGKILL
    folders: Mapping[str, int] = field(default_factory=dict)


async def run(
    prepared: Prepared,
    limits: Limits,
    timeout_s: float,
    on_output: OnOutput,
    over_quota: Callable[[Used], str],
    fence: Fence,
) -> Finished:
    """Run to the end, a limit or cancellation. In every case no process of the command lives when this returns.

    ``over_quota`` is called in a thread now and then, with what the command uses, and returns a reason to stop, or
    "". With ``fence`` the command ends with the lease at the latest, and does not begin after it.
    """
    started = time.monotonic()
    held = LeaseWrapper(fence, prepared.ended_by)
    running = await _start(prepared, limits, on_output, held)
    watcher = asyncio.create_task(_watch(running, over_quota))
    teller = asyncio.create_task(held.keep_told())
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(_read(running, "stdout"), _read(running, "stderr"), running.process.wait())
    except TimeoutError:
        running.killed = running.killed or f"stopped after {timeout_s:g} s (time limit)"
    finally:
        watcher.cancel()
        await asyncio.shield(_end(running))
        teller.cancel()
        held.close()
    code = running.process.returncode
    if code == ENDED_BY_LEASE:
        running.killed = running.killed or "stopped: the lease of this run was over"
    return Finished(
        exit_code=-1 if running.killed or code is None else code,
        stdout=bytes(running.kept["stdout"]),
        stderr=bytes(running.kept["stderr"]),
        duration_ms=int((time.monotonic() - started) * 1000),
        killed=running.killed,
    )


async def _start(prepared: Prepared, limits: Limits, on_output: OnOutput, held: LeaseWrapper) -> _Running:
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(writing, True)
    argv = [*held.argv, *prepared.words(writing)]
    descriptors = (*prepared.descriptors, writing, *held.descriptors)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={},  # bwrap's own environment is readable inside as /proc/1/environ
            cwd="/",
            start_new_session=True,
            pass_fds=descriptors,
        )
    except BaseException:
        os.close(reading)
        held.close()
        raise
    finally:
        os.close(writing)
        prepared.close()
    held.started()
    running = _Running(process, limits, on_output, reading, ended_by=prepared.ended_by, folders=prepared.folders)
    asyncio.get_running_loop().add_reader(reading, _note_first, running)
    return running


def _note_first(running: _Running) -> None:
    """Hold the first process by descriptor, so that its id cannot be mistaken for another's later.

    It comes as ``{"child-pid": 123, ...}`` and a newline, possibly in pieces.
    """
    with suppress(BlockingIOError):
        text = os.read(running.status, 4096)
        running.status_text += text
        if running.first == 0 and b"\n" in running.status_text:
            running.first = int(json.loads(running.status_text.split(b"\n")[0]).get("child-pid", 0))
            with suppress(ProcessLookupError):
                running.first_descriptor = os.pidfd_open(running.first)
        if not text:
            asyncio.get_running_loop().remove_reader(running.status)


async def _read(running: _Running, name: str) -> None:
    stream = running.process.stdout if name == "stdout" else running.process.stderr
    assert stream is not None
    kept = running.kept[name]
    while chunk := await stream.read(_CHUNK):
        room = running.limits.kept_bytes - sum(map(len, running.kept.values()))
        if room > 0:
            kept += chunk[:room]
            running.on_output(name, chunk[:room])
        if len(chunk) > room:  # keep reading after the kill, so that the pipe closes
            _kill(running, f"stopped: more than {running.limits.kept_bytes} bytes of output")


async def _watch(running: _Running, over_quota: Callable[[Used], str]) -> None:
    """What the kernel's per-process limits cannot see: what the whole tree uses, and the files of the workspace."""
    next_quota, wait = time.monotonic() + _WATCH_S, _WATCH_S
    while True:
        await asyncio.sleep(wait)
        before = time.monotonic()
        used = await asyncio.to_thread(measure, running.first, running.folders, running.limits.processes)
        wait = min(max(_WATCH_S, 4 * (time.monotonic() - before)), _SELDOMEST_S)
        if reason := _too_much(used, running.limits):
            return _kill(running, f"stopped: {reason}")
        if time.monotonic() < next_quota:
            continue
        before = time.monotonic()
        if reason := await asyncio.to_thread(over_quota, used):
            return _kill(running, f"stopped: {reason}")
        next_quota = time.monotonic() + min(max(_WATCH_S, 20 * (time.monotonic() - before)), _SELDOMEST_S)


def _too_much(used: Used, limits: Limits) -> str:
    if used.memory > limits.memory_bytes:
        return f"{used.memory} bytes of memory, the limit is {limits.memory_bytes}"
    if used.tasks > limits.processes:
        return f"{used.tasks} processes and threads, the limit is {limits.processes}"
    if used.files > limits.workspace_files:
        return f"more than {limits.workspace_files} files in its temporary folders"
    return ""


def _kill(running: _Running, reason: str) -> None:
    running.killed = running.killed or reason
    with suppress(ProcessLookupError):
        os.killpg(running.process.pid, signal.SIGKILL)
    if running.first_descriptor >= 0:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(running.first_descriptor, running.ended_by)


async def _end(running: _Running) -> None:
    """Kill whatever is left and wait until nothing is: the first process ends last."""
    _note_first(running)
    if running.process.returncode is None:
        _kill(running, running.killed or "cancelled")
        await running.process.wait()
        _note_first(running)
    if running.first_descriptor >= 0:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(running.first_descriptor, running.ended_by)
        await asyncio.to_thread(_wait_dead, running.first_descriptor)
        os.close(running.first_descriptor)
    asyncio.get_running_loop().remove_reader(running.status)
    os.close(running.status)


def _wait_dead(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(int(_DEAD_WITHIN_S * 1000))
