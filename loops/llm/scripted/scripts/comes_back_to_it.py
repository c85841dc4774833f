"""An agent that keeps coming back to one and the same file between other things, a line further each time: too far
apart, and never quite the same, so that it does not notice.

Whoever looks from outside sees it. Told so, it says what it knows and ends.
"""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.scripted.adapter import Script, Turn, went_well

_FILES = ("README.md", "invoices/money.py", "invoices/tax.py", "invoices/invoice.py", "invoices/discounts.py")
_TOLD = "You are going in circles"
_AT_MOST = 30


def _play(request: ModelRequest, number: int) -> Turn:
    if _TOLD in str(request.messages[-1]) or number >= _AT_MOST:
        return Turn(
            thinking="True: I read the same file again and again.",
            text="I keep looking for a port that is not there. That is my answer.",
            calls=(("task_completion", {"result": "This project sets no port anywhere."}),),
            only_if=went_well,
        )
    if number % 2:
        return Turn(
            thinking="It must be somewhere.",
            text="I read the tests once more, for the port.",
            calls=(("read_file", {"path": "tests/test_invoice.py", "offset": 1 + number // 2}),),
        )
    path = _FILES[number // 2 % len(_FILES)]
    return Turn(
        thinking="Perhaps it stands in a file that I have not read closely.",
        text=f"I read {path}.",
        calls=(("read_file", {"path": path}),),
    )


SCRIPT = Script(
    name="comes_back_to_it",
    summary="Comes back to the same file over and over, with other things in between; the monitor notices.",
    play=_play,
    goal="Tell me the port that this project listens on.",
)
