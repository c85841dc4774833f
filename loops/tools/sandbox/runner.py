"""One command in one workspace from start to end: alone, guarded, limited, and cleaned up after (SPEC I7)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from loops.engine.ports import OnOutput
from loops.tools.sandbox.command import REPORT, REPORTS, TESTS, Prepared, Sandboxed, environment
from loops.tools.sandbox.confined import confinement
from loops.tools.sandbox.namespaces import bubblewrap
from loops.tools.sandbox.namespaces.user import give_tree, sandbox_user
from loops.tools.sandbox.network import bridge
from loops.tools.sandbox.process import Finished, run
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.sandbox.usage.consumption import Used, free_bytes, out_of_sight
from loops.tools.sandbox.workspace_guard.interrupted import Record
from loops.tools.sandbox.workspace_guard.planted_files import Taken
from loops.tools.sandbox.workspace_guard.protected_files import Guard, guard
from loops.tools.test_sessions import reporters
from loops.tools.workspace import Workspace

NO_NETWORK = "a command with network needs a network of its own, which this machine cannot give it (bubblewrap)"
_LOCK_EVERY_S = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: ``argv`` without a shell, in ``directory`` of the workspace, for at most ``timeout_s`` seconds."""

    argv: tuple[str, ...]
    timeout_s: float
    directory: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    report: str = ""
    network: str = ""
    """A host folder with the socket of a proxy, by which alone the command reaches hosts; only in namespaces."""
    tests: str = ""
    """A host folder with the socket of a channel, to which its test runners report (``test_sessions``)."""
    changed: Callable[[], list[str]] = list
    """What is not as it was approved."""
    run: str = ""
    """Whose command it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``restored`` names protected paths that the command changed and that were put back; ``taken`` is what it left
    that would have acted on whoever uses the folder later, and is gone. What could not be helped comes first in it."""

    finished: Finished
    restored: tuple[str, ...]
    taken: tuple[Taken, ...] = ()


async def run_inside(workspace: Workspace, job: Job, on_output: OnOutput, *, namespaces: bool = True) -> Outcome:
    """Run ``job``. Cancelling kills its whole tree first, then puts protected paths back.

    Without ``namespaces`` Landlock holds it (level 2).

    Raises NoUserNamespace or OSError when the sandbox itself cannot start, PathRefused for a bad directory or for a
    workspace by which a command would reach files outside.
    """
    directory = relative(job.directory)
    with workspace.beneath.opened(directory, os.O_RDONLY | os.O_DIRECTORY):
        pass
    async with _alone(workspace):
        record = Record(workspace.records, workspace.beneath)
        late = await _to_the_end(record.put_right)
        if changed := job.changed():  # another command may have been running until now
            raise PathRefused(f"changed since it was approved: {', '.join(changed)}; ask again", escape=True)
        limits = workspace.limits
        guarded = await asyncio.to_thread(guard, workspace.beneath, limits.protected, namespaces, limits.stated)
        restored: list[str] = []
        try:
            await _to_the_end(lambda: record.begin(guarded, job.run))
            prepared = await _prepared(workspace, job, directory, guarded, namespaces=namespaces)
            finished = await _run(prepared, workspace, job, on_output)
        finally:
            restored += await _to_the_end(lambda: record.ended_after(guarded))
        record.end(told=True)
        taken = sorted([*late.taken, *guarded.taken], key=lambda one: not one.stays)
        return Outcome(finished, tuple(dict.fromkeys([*late.restored, *restored])), tuple(taken))


async def _prepared(workspace: Workspace, job: Job, directory: str, guarded: Guard, *, namespaces: bool) -> Prepared:
    owner = workspace.owner
    if owner is not None:
        await asyncio.to_thread(give_tree, workspace.beneath, owner)
    if job.network and not namespaces:
        raise PathRefused(NO_NETWORK)
    argv = reporters.heard(job.argv, TESTS if namespaces else job.tests) if job.tests else job.argv
    command = Sandboxed(
        argv=bridge.before(argv) if job.network else argv,
        workspace=workspace.beneath,
        directory=directory,
        binds=guarded.binds,
        masks=guarded.masks,
        sealed=job.sealed,
        report=job.report,
        network=job.network,
        tests=job.tests,
    )
    inner = environment(job.environment) | ({REPORTS: REPORT} if job.report else {})
    inner |= bridge.variables() if job.network else {}
    if not namespaces:
        return confinement.prepare(command, workspace.limits, inner)
    inner |= reporters.variables(TESTS, inner["PATH"]) if job.tests else {}
    user = await asyncio.to_thread(sandbox_user)
    return bubblewrap.prepare(command, user, workspace.limits, inner)


async def _to_the_end(work: Callable[[], T]) -> T:
    """In a thread; whoever is cancelled meanwhile still waits for it."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _run(prepared: Prepared, workspace: Workspace, job: Job, on_output: OnOutput) -> Finished:
    writable: list[int | str] = [workspace.beneath.fd]
    if prepared.scratch:
        writable.append(prepared.scratch)
    before = free_bytes(writable)

    def over_quota(used: Used) -> str:
        return (
            workspace.over_quota(used.unlinked)
            or confinement.over_scratch(prepared.scratch, workspace.limits)
            or out_of_sight(used, before, free_bytes(writable), workspace.limits)
        )

    try:
        return await run(prepared, workspace.limits, job.timeout_s, on_output, over_quota, workspace.fence)
    finally:
        if prepared.scratch:
            await asyncio.to_thread(shutil.rmtree, prepared.scratch, ignore_errors=True)


@asynccontextmanager
async def _alone(workspace: Workspace) -> AsyncIterator[None]:
    """One command at a time in a workspace, over all workers: nothing may move while mounts are being placed."""
    with workspace.beneath.opened(".", os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        while not _locked(descriptor):
            await asyncio.sleep(_LOCK_EVERY_S)
        workspace.beneath.check_place()
        yield
        workspace.beneath.check_place()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
