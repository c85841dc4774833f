"""The guards that the negative controls switch off, each by replacing one function in a process of the test's own.

Nothing here is a setting of the product: a child applies it to itself after its fork or at its start.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any

VARIABLE = "AGENTOPS_FAULTS_OFF"


def intent() -> None:
    """Effects begin before their INTENT is durable."""
    from loops.driver.session import RunSession
    from loops.engine import facts as f

    flush = RunSession.flush

    def late(self: Any, *within: Any) -> None:
        if not within and self._buffer and isinstance(self._buffer[-1][0], f.ToolIntended):
            return
        flush(self, *within)

    RunSession.flush = late  # type: ignore[method-assign]


def doubt() -> None:
    """An INTENT without outcome is simply run again."""
    from loops.driver.tool_calls import ToolCalls
    from loops.engine import effects as e

    async def again(self: Any, effect: e.RecoverTool) -> None:
        await self.run(e.RunTool(effect.call, attempt=effect.attempt + 1))

    ToolCalls.recover = again  # type: ignore[method-assign, assignment]


def key() -> None:
    """Every attempt has an idempotency key of its own."""
    from loops.driver import tool_calls

    tool_calls.idempotency_key = lambda run_id, call: uuid.uuid4().hex  # type: ignore[assignment]


def claim() -> None:
    """Whoever asks becomes the owner."""
    from loops.runs import drive
    from loops.storage import journal

    def take(run_id: uuid.UUID, owner: str, ttl_s: float = journal.TTL_S) -> Any:
        connection = journal.raw_connection()
        connection.execute("UPDATE agent_execution_history SET lease_until = NULL WHERE id = %s", [run_id])
        return original(run_id, owner, ttl_s)

    original = journal.claim
    drive.journal.claim = take


def fence() -> None:
    """A writer takes for granted that it is the owner still: it writes at the head, whoever wrote there meanwhile."""
    from loops.storage.journal import PgJournal

    append = PgJournal.append
    head = "SELECT epoch, head_seq, head_hash FROM agent_execution_history WHERE id = %s"

    def anyway(self: Any, entries: Any, within: Any = ()) -> None:
        self._epoch, self._seq, self._head = self.connection.execute(head, [self._run]).fetchone()
        append(self, entries, within)

    PgJournal.append = anyway  # type: ignore[method-assign]
    PgJournal.renew = lambda self: None  # type: ignore[method-assign]


def idempotency() -> None:
    """Nobody remembers the key of a submission."""
    from loops.services import tasks

    tasks.clean_key = lambda key: None


def deadline() -> None:
    """Nothing ends a worker that acts after its lease."""
    from loops.tools import fence

    fence.SWITCHED_ON = False


def rest() -> None:
    """A worker waits for the person in front of the gate."""
    import time

    from loops.driver import Driver

    give_back = Driver._give_back

    def wait(self: Any, why: str, **how: Any) -> str:
        if why.startswith("gate:"):
            time.sleep(3600)
        return give_back(self, why, **how)

    Driver._give_back = wait  # type: ignore[method-assign]


def undone() -> None:
    """A rollback that starts again forgets what it has undone, and no key says that it was the same."""
    from loops.engine import facts as f
    from loops.engine.rollback import plan

    ledger = plan.ledger
    plan.ledger = lambda history: ledger(  # type: ignore[assignment]
        fact for fact in history if not isinstance(fact, f.CompensationCompleted | f.CompensationIntended)
    )
    plan.idempotency_key = lambda run_id, undo: uuid.uuid4().hex  # type: ignore[assignment]


def drain() -> None:
    """A worker that is told to end goes on as before."""
    from loops.driver import drain
    from loops.runs import worker

    drain.begin = lambda grace_s: None  # type: ignore[assignment]
    worker.threading.Timer = lambda *_: worker.threading.Thread()  # type: ignore[misc, assignment]


def newer() -> None:
    """No guard: another version of the code, with one tool more."""
    from dataclasses import replace

    from loops.runs.composition import tool_registry
    from tests.faults import bank

    tool = next(tool for tool in bank.TOOLS if tool.spec.name == "notify")
    tool_registry().add(replace(tool, spec=replace(tool.spec, name="notify_better", version="2")))


def tomorrow() -> None:
    """No guard: code of a later version, which records more: a new kind of fact after every step."""
    from loops.driver.session import RunSession
    from loops.engine import facts as f
    from loops.engine.facts.fact import Fact

    overlooks()
    note, noticed = RunSession.note, f.KINDS["CrewChanged"]

    def note_more(self: Any, *facts: Fact) -> None:
        for fact in facts:
            note(self, fact)
            if isinstance(fact, f.StepCompleted):
                note(self, noticed())

    RunSession.note = note_more  # type: ignore[method-assign]


def overlooks() -> None:
    """A fact of a later version means nothing, and so it is passed over."""
    from loops.engine import facts as f
    from loops.engine.facts.fact import Fact
    from loops.engine.reducers import HANDLERS

    changed = type("CrewChanged", (Fact,), {})
    f.KINDS["CrewChanged"] = changed  # type: ignore[index]
    HANDLERS[changed] = (lambda state, fact: state,)


def field() -> None:
    """No guard: code of a later version, whose steps have a field more."""
    from loops.engine.facts import encoding
    from loops.engine.facts.fact import Fact

    labelled = encoding.labelled

    def with_more(fact: Fact) -> dict[str, Any]:
        more = {"mood": "hopeful"} if type(fact).__name__ == "StepCompleted" else {}
        return labelled(fact) | more

    encoding.labelled = with_more  # type: ignore[assignment]


def clean() -> None:
    """Rows for people are written as they come."""
    from loops.storage import rows

    rows.clean = lambda text: text
    rows.clean_json = lambda value, longest=0: value


def say_why() -> None:
    """A worker that fails is like one that is killed: nobody knows where it was."""
    from loops.runs import recovery

    recovery.say_why = lambda held, error: None


def aside() -> None:
    """A run that kills its workers is tried again."""
    from loops.runs import recovery

    recovery.put_aside = lambda state: None


def disk() -> None:
    """A file is written when it is in the machine's memory."""
    import os

    os.fsync = lambda descriptor: None


def refusal() -> None:
    """A worker does not hear that the database refused what it wrote."""
    from contextlib import suppress

    from loops.storage.journal import PgJournal

    append = PgJournal.append

    def deaf(self: Any, entries: Any, within: Any = ()) -> None:
        with suppress(Exception):
            append(self, entries, within)

    PgJournal.append = deaf  # type: ignore[method-assign]


def begun() -> None:
    """What is about to be written of a result is not written down, so that nobody goes on with it."""
    from loops.services import delivery

    def unrecorded(row: Any) -> bool:
        if why := delivery._changed_since(row):
            delivery._end(row, why)
        return not why

    delivery._begin = unrecorded


def stray() -> None:
    """Nobody looks for what lost workers left half-made."""
    from loops.workspaces import strays

    strays.clear = lambda: 0


def own_clock() -> None:
    """A lease is over when the worker's own clock says so."""
    import time
    from datetime import UTC, datetime

    from loops.runs import drive
    from loops.storage import journal

    original = journal.claim
    steal = "UPDATE agent_execution_history SET lease_until = NULL WHERE id = %s AND lease_until < %s"

    def by_own_clock(run_id: uuid.UUID, owner: str) -> Any:
        journal.raw_connection().execute(steal, [run_id, datetime.fromtimestamp(time.time(), UTC)])
        return original(run_id, owner)

    drive.journal.claim = by_own_clock


def _clock(now: Callable[[float], float]) -> Callable[[], None]:
    def skew() -> None:
        import time

        real = time.time
        time.time = lambda: now(real())

    return skew


def frozen() -> None:
    """No guard: a clock that stands still, a day ahead."""
    import time

    moment = time.time() + 86_400
    time.time = lambda: moment


def in_memory() -> None:
    """Jobs are acknowledged in the broker, where a closing connection would put them back."""
    from agentops.celery import app

    app.conf.broker_transport_options = {**app.conf.broker_transport_options, "ack_emulation": True}


def lease(seconds: float) -> None:
    """No guard, shorter times: a lost owner is noticed sooner, and a person may act sooner."""
    from loops.driver import interrupts, tool_calls
    from loops.storage import journal

    journal.claim.__defaults__ = (seconds,)
    journal.PgJournal.__init__.__defaults__ = (seconds,)  # type: ignore[misc]
    interrupts.RENEW_EVERY_S = seconds / 3
    tool_calls.LEASE_S = seconds


GUARDS: dict[str, Callable[[], None]] = {
    "intent": intent,
    "in_memory": in_memory,
    "doubt": doubt,
    "key": key,
    "claim": claim,
    "fence": fence,
    "deadline": deadline,
    "idempotency": idempotency,
    "rest": rest,
    "undone": undone,
    "drain": drain,
    "newer": newer,
    "tomorrow": tomorrow,
    "overlooks": overlooks,
    "field": field,
    "clean": clean,
    "say_why": say_why,
    "aside": aside,
    "disk": disk,
    "refusal": refusal,
    "begun": begun,
    "stray": stray,
    "own_clock": own_clock,
    "ahead": _clock(lambda now: now + 3600),
    "behind": _clock(lambda now: now - 3600),
    "frozen": frozen,
}


def off(*names: str) -> None:
    """Switch guards off in this process."""
    for name in names:
        GUARDS[name]()


def off_by_environment() -> None:
    off(*filter(None, os.environ.get(VARIABLE, "").split(",")))
