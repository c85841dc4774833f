"""An agent that reads the same files over and over, one after the other, until the run notices: told so, it says what
it knows and ends."""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.scripted.adapter import Script, Turn, went_well

_FILES = (
    "README.md",
    "pyproject.toml",
    "invoices/money.py",
    "invoices/printing.py",
    "tests/test_invoice.py",
)
_TOLD = "You are going in circles"
_AT_MOST = 30


def _play(request: ModelRequest, number: int) -> Turn:
    if _TOLD in str(request.messages[-1]) or number >= _AT_MOST:
        return Turn(
            thinking="True: I read the same files again and again.",
            text="I keep looking for a port that is not there. That is my answer.",
            calls=(("task_completion", {"result": "This project sets no port anywhere."}),),
            only_if=went_well,
        )
    path = _FILES[number % len(_FILES)]
    return Turn(
        thinking="Perhaps it stands in a file that I have not read closely.",
        text=f"I read {path}.",
        calls=(("read_file", {"path": path}),),
    )


SCRIPT = Script(
    name="comes_back_to_it",
    summary="Comes back to the same files over and over; loop detection notices.",
    play=_play,
    goal="Tell me the port that this project listens on.",
)
