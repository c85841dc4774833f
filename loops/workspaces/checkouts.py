"""Clean checkouts of a run's folder, in which the commands of its criteria are measured (SPEC L2, ADR 0079).

What tests need installed comes from where agents cannot write: the set-up, the folder that was copied, or the `.venv`
at the top, which the sandbox mounts read-only. Where there is no such place, nothing is made.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from loops.engine.ports import CallContext, Checkout
from loops.engine.text.truncation import shortened
from loops.models import Run, Setup
from loops.runs.composition import CHECKOUT, LiveTools, command_records, sandbox_level
from loops.tools.mutants.mutants import Mutant, mutants
from loops.tools.output import clean_text
from loops.tools.sandbox.capability import FULL
from loops.tools.sandbox.command import ENVIRONMENT
from loops.tools.sandbox.workspace_guard import interrupted
from loops.tools.seals import NotSealed, Seal, lay_work, take_away
from loops.tools.workspace import CACHES
from loops.workspaces import copies, setups, sources
from loops.workspaces.folder_copy import Copy, WorkspaceElsewhere, WorkspaceUnusable, meanwhile

LONGEST_PATH = 200
Lay = Callable[[Path], None]
"""Puts files into a checkout that is just made."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the packages of a run's folder were copied from: a set-up, or a folder; neither where it has the only
    ones."""

    setup: Setup | None = None
    folder: Path | None = None


def installed_for(run: Run) -> Installed:
    workspace, is_checked = run.task.workspace, any(row.get("command") for row in run.task.criteria)
    if workspace is None or not workspace.source or not is_checked:
        return Installed()
    if workspace.path and not workspace.copy_for_each_run:
        return Installed()
    if workspace.setup_command:
        rows = Setup.objects.filter(workspace=workspace, kind=Setup.Kind.SETUP, state=Setup.State.READY)
        return Installed(setup=rows.order_by("-ended_at").first())
    fetched = sources.fetched(workspace) if workspace.is_fetched else None
    return Installed(folder=setups.folder(fetched) if fetched is not None else Path(workspace.path))


class RunCheckouts:
    """Implements ``loops.engine.ports.Checkouts`` for one run."""

    def __init__(self, run: Run, installed: Installed, tools: LiveTools) -> None:
        self._run, self._tools, self._installed = run, tools, installed
        self._folder: Path | None = None
        self._seal = Seal()
        self._leftovers: Set[str] = frozenset()
        self._mutants: Sequence[Mutant] = ()

    async def make(self, context: CallContext, start: str, leftovers: Set[str]) -> Checkout:
        self._leftovers = leftovers
        try:
            self._seal = self._tools.seal(context, start, leftovers)
        except NotSealed as error:
            return Checkout(why_not=str(error))
        made = await self._filled(self._seal.lay)
        return replace(made, changed=tuple(sorted(self._seal.originals))) if made.path else made

    async def make_broken(self, *, own_tests: bool = False) -> Checkout:
        broken = await asyncio.to_thread(self._seal.broken)
        if not broken.files:
            return Checkout()
        lays = (partial(lay_work, files=broken.files),)
        made = await self._filled(*lays) if own_tests else await self._filled(self._seal.lay, *lays)
        return replace(made, broken=broken.functions, broken_count=broken.count) if made.path else made

    async def make_without_work(self, *, own_tests: bool = False) -> Checkout:
        return await self._filled(partial(self._seal.lay_start, own_tests=own_tests))

    async def mutants(self, most: int) -> Sequence[str]:
        self._mutants = await asyncio.to_thread(mutants, self._seal.changes(), most)
        return [clean_text(f"{shortened(one.path, LONGEST_PATH)}:{one.line}: {one.what}") for one in self._mutants]

    async def make_mutated(self, number: int) -> Checkout:
        one = self._mutants[number]
        return await self._filled(partial(lay_work, files={one.path: one.data}))

    async def leave(self) -> None:
        if self._folder is not None:
            await asyncio.to_thread(_remove, self._folder)
            self._folder = None

    async def _filled(self, *lays: Lay) -> Checkout:
        """In the place of the one that there is."""
        await self.leave()
        try:
            self._folder = copies.made_root() / f"{CHECKOUT}{self._run.pk}-{secrets.token_hex(4)}"
            await self._filling(self._folder, lays)
        except (NotSealed, WorkspaceUnusable, WorkspaceElsewhere, OSError) as error:
            await self.leave()
            return Checkout(why_not=str(error))
        return Checkout(str(self._folder))

    async def _filling(self, folder: Path, lays: Sequence[Lay]) -> None:
        """In a thread, which is not left behind: whoever is cancelled waits until it has noticed."""
        unwanted = threading.Event()
        filling = asyncio.ensure_future(asyncio.to_thread(self._fill, folder, lays, unwanted))
        try:
            await asyncio.shield(filling)
        except asyncio.CancelledError:
            unwanted.set()
            await asyncio.wait([filling])
            await self.leave()
            raise

    def _fill(self, folder: Path, lays: Sequence[Lay], unwanted: threading.Event) -> None:
        def go_on() -> None:
            if unwanted.is_set():
                raise WorkspaceUnusable("nobody waits for it any more")

        folder.mkdir(mode=0o700)
        with meanwhile(go_on):
            self._copy(Path(self._run.workspace_path), folder)
            take_away(folder, self._leftovers)
        for lay in lays:
            lay(folder)

    def _copy(self, source: Path, folder: Path) -> None:
        kept = {ENVIRONMENT} if sandbox_level().level >= FULL else set[str]()
        Copy(source, folder, without=CACHES | setups.INSTALLED, kept=kept).run()
        if self._installed.setup is not None:
            setups.lay(self._installed.setup, folder, folder)
        elif self._installed.folder is not None:
            Copy(self._installed.folder, folder, only=setups.INSTALLED, beside=True).run()
        elif found := _installed_in(source, kept):
            raise NotSealed(f"only the run's own folder has {found}, and the run may have changed what is in there")


def _installed_in(source: Path, kept: set[str]) -> str:
    """The first folder of packages that anybody could have changed, "" where there is none."""
    for place, folders, _ in os.walk(source):
        here = Path(place).relative_to(source)
        found = (str(here / name) for name in folders if name in setups.INSTALLED)
        if first := next((path for path in found if path not in kept), ""):
            return first
        folders[:] = [name for name in folders if name not in {*CACHES, ENVIRONMENT, ".git"}]
    return ""


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        interrupted.forget(command_records(), os.path.realpath(folder))
