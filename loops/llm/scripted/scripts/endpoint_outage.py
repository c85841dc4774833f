"""A provider that is overloaded now and then, by the clock: a run of this script always meets an outage.

The only script that looks at the clock. Watch a breaker open, the run go another way or wait, the probe, and the close.
"""

from __future__ import annotations

import time

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelRequest
from loops.llm.scripted.adapter import Script, Turn, went_well

PERIOD_S, DOWN_S = 95, 35
"""Up for less time than the run takes; down for longer than five tries take, and over when the first probe comes."""
FILES = ("README.md", "invoices/invoice.py", "invoices/tax.py", "invoices/discounts.py", "invoices/money.py")
_THOUGHT = "I read one file after the other and note what I learn, so that nothing is lost when I have to wait. " * 3
TURNS = (
    *(Turn(thinking=_THOUGHT, text=f"I read {path}.", calls=(("read_file", {"path": path}),)) for path in FILES),
    Turn(
        text="I have read them all.",
        calls=(("task_completion", {"result": "Five files read, none changed."}),),
        only_if=went_well,
    ),
)


def _play(request: ModelRequest, number: int) -> Turn:
    if time.time() % PERIOD_S < DOWN_S:
        error = ModelError("Overloaded", kind=FailureKind.TRANSIENT, code="overloaded_error", status=529)
        return Turn(error=error)
    return steady(number)


def steady(number: int) -> Turn:
    """The same turns from an endpoint that is up."""
    return TURNS[min(number, len(TURNS) - 1)]


SCRIPT = Script(
    name="endpoint_outage",
    summary="Overloaded for half a minute now and then; goes on where it was.",
    play=_play,
    goal="Read through the project and say what it does.",
)
