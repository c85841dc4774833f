"""Beside the effects: look for mail, keep the lease, and cancel what is being performed when a person says so.

The lease is kept only while the driver makes progress: every effect has a time by which it must have ended. What is
late is cancelled; what cannot be cancelled costs the run's owner its lease (reliability#lease).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from loops.driver import drain
from loops.engine import ports as p

T = TypeVar("T")
log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
"""How often the mailbox is looked at while something is performed: a stop is obeyed well within a second (SPEC K1)."""
RENEW_EVERY_S = 5.0
STEP_S = 60.0
"""For whatever the driver does between two effects that have a time of their own."""
MARGIN_S = 30.0
"""On top of an effect's own time limit, before it is late."""
GRACE_S = 10.0
"""For what was cancelled to clean up, before the lease is let go."""
STOP = frozenset({"stop"})
STOP_OR_PAUSE = frozenset({"stop", "pause", "drain:pressing"})
"""Of what may be begun again: it is also cut short when the worker has to end."""
ANYTHING = frozenset({"*"})
"""Of waiting, which is no work: whatever comes in ends it."""


class Interrupted(Exception):
    """A person or the monitor wants the run to stop or pause, or the worker ends: what was being performed was
    cancelled. ``kinds`` says which, ``names`` who."""

    def __init__(self, kinds: frozenset[str], names: tuple[str, ...] = ()) -> None:
        super().__init__(", ".join(sorted(kinds)))
        self.kinds, self.names = kinds, names

    @property
    def by(self) -> str:
        """Who wanted it, in words."""
        return "the worker ended" if self.kinds <= {"drain", "drain:pressing"} else ", ".join(self.names) or "a person"


class TookTooLong(TimeoutError):
    """What was being performed did not end in its time and was cancelled."""


class Interrupts:
    """One for each driver. The work runs in the driver's own task and the watch cancels that task: a task of its own
    for every call would cost more than all the rest of a step."""

    def __init__(
        self,
        journal: p.Journal,
        draining: Callable[[], bool] = drain.begun,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mail_waiting = True
        self.draining = draining
        self.lost: Exception | None = None
        self._journal, self._now = journal, now
        self._kinds: frozenset[str] = frozenset()
        self._who: dict[str, str] = {}
        self._heeds: frozenset[str] = frozenset()
        self._driving: asyncio.Task[Any] | None = None
        self._performing: asyncio.Task[Any] | None = None
        self._doing, self._due, self._late = "", math.inf, False
        self._told_to_end = False

    async def run(self) -> None:
        """Until the lease is lost. A database that does not answer is the same: stop before the lease runs out."""
        renewed = self._now()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                self._look()
                if self._now() - renewed > RENEW_EVERY_S:
                    self._journal.renew()
                    renewed = self._now()
            except Exception as error:
                return self._lose(error)

    def _look(self) -> None:
        mail = self._journal.mail_kinds()
        self.mail_waiting = self.mail_waiting or bool(mail)
        if STOP_OR_PAUSE & mail:
            self._who = {item.kind: str(item.payload.get("by") or item.by) for item in self._journal.mail()}
        self._kinds = mail | self._drain_kinds()
        if self.draining() and not self._told_to_end:
            self._told_to_end = True
            self._journal.told_to_end()
        if self._now() > self._due:
            self._overdue()
        elif self._hits(self._heeds):
            self._cancel()

    def _drain_kinds(self) -> frozenset[str]:
        if not self.draining():
            return frozenset()
        return frozenset({"drain", "drain:pressing"} if drain.pressing() else {"drain"})

    def _overdue(self) -> None:
        """Cancel what is late; when it stays, leave the lease to run out, and say why: somebody else goes on then."""
        if self._performing is not None and not self._late:
            self._late = True
            self._due = self._now() + GRACE_S
            return self._cancel()
        what = f"{self._doing or 'the driver'} hangs"
        log.critical("%s; the lease is not renewed any more", what)
        self._journal.hang(what)
        raise p.LeaseLost(what)

    def _lose(self, error: Exception) -> None:
        self.lost = error
        stuck = self._performing if self._late else self._driving if self._performing is None else None
        if stuck is not None:  # it had its time to clean up
            stuck.cancel()
        else:
            self._cancel()

    def drives(self, task: asyncio.Task[Any] | None) -> None:
        """This task drives the run: it is cancelled when it hangs between two effects."""
        self._driving = task

    def expect(self, what: str, within_s: float = STEP_S) -> None:
        """``what`` begins now, and ends within so many seconds."""
        self._doing, self._due, self._late = what, self._now() + within_s, False

    def mail_taken(self) -> None:
        self.mail_waiting, self._kinds = False, frozenset()

    async def interruptible(
        self,
        work: Coroutine[Any, Any, T],
        heeds: frozenset[str] = STOP_OR_PAUSE,
        *,
        what: str = "",
        within_s: float = math.inf,
    ) -> T:
        """Await ``work``; mail of the kinds in ``heeds`` cancels it and raises Interrupted, a lost lease LeaseLost,
        ``within_s`` seconds and a margin TookTooLong."""
        if self.lost is not None or self._hits(heeds):
            work.close()
            raise self._reason(heeds)
        self._performing, self._heeds = asyncio.current_task(), heeds
        self.expect(what, within_s + MARGIN_S)
        try:
            return await work
        except asyncio.CancelledError:
            if self.lost is None and not self._hits(heeds) and not self._late:
                raise
            if self._performing is not None:
                self._performing.uncancel()
            raise self._reason(heeds) from None
        finally:
            self._performing, self._heeds = None, frozenset()
            self.expect("")

    def _cancel(self) -> None:
        """Once: a second time would cut short what the work does to clean up."""
        if self._performing is not None and not self._performing.cancelling():
            self._performing.cancel()

    def _reason(self, heeds: frozenset[str]) -> Exception:
        if self.lost is not None:
            return p.LeaseLost(str(self.lost))
        hits = self._hits(heeds)
        names = dict.fromkeys(name for kind, name in self._who.items() if kind in hits and name)
        return Interrupted(hits, tuple(names)) if hits else TookTooLong(self._doing)

    def _hits(self, heeds: frozenset[str]) -> frozenset[str]:
        return self._kinds if heeds is ANYTHING else self._kinds & heeds
