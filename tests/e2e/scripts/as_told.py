"""Does what the goal says after ``PLAN``: a JSON list of answers, each with "calls", "words", "pace" or "error".

"kills" names a file: while it is there, whoever asks writes ``ARMED`` into it, and dies once it says ``NOW``.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelRequest
from loops.llm.scripted.adapter import Script, Turn

ARMED, NOW = "armed", "now"
LONG = Turn(text="word " * 3_000, delay=0.1)
"""An answer that takes longer than anybody waits for."""


def goal(*answers: dict[str, Any]) -> str:
    """A goal that makes the model give ``answers`` in their order, and then hand in a result."""
    return "PLAN " + json.dumps(answers)


def _play(request: ModelRequest, number: int) -> Turn:
    text = str(request.messages[0]["content"][0]["text"])  # type: ignore[index, call-overload]
    answers, _ = json.JSONDecoder().raw_decode(text.partition("PLAN ")[2])
    if number >= len(answers):
        return Turn(text="Done.", calls=(("task_completion", {"result": "as told"}),))
    told = answers[number]
    if (switch := Path(told.get("kills", "/nowhere"))).exists():
        switch.write_text(ARMED)
        threading.Thread(target=_die_when_told, args=[switch], daemon=True).start()
        return LONG
    error = None
    if "error" in told:
        kind, wish = FailureKind.TRANSIENT, told["error"]
        error = ModelError("Overloaded", kind=kind, code="overloaded_error", status=529, retry_after_s=wish)
    return Turn(
        text=told.get("words", "I do as I was told."),
        calls=tuple((name, arguments) for name, arguments in told.get("calls", ())),
        delay=told.get("pace"),
        error=error,
    )


def _die_when_told(switch: Path) -> None:
    while switch.read_text() != NOW:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


SCRIPT = Script(name="as_told", summary="Does what its goal says.", play=_play)
