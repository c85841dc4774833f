"""A model that makes the calls which the goal lists as JSON, one a step, then asks, then gives up for good."""

from __future__ import annotations

import json
from typing import Any

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelRequest
from loops.llm.scripted.adapter import Script, Turn


def _play(request: ModelRequest, number: int) -> Turn:
    first: Any = request.messages[0]["content"]
    text = first[0]["text"]
    calls = json.loads(text[text.index("[") : text.rindex("]") + 1])
    if number < len(calls):
        return Turn(text=f"Step {number + 1}.", calls=(tuple(calls[number]),))  # type: ignore[arg-type]
    if number == len(calls):
        return Turn(text="What now?", calls=(("ask_question", {"question": "What now?"}),))
    return Turn(error=ModelError("no key", kind=FailureKind.UNRECOVERABLE, code="authentication_error"))


SCRIPT = Script(name="scripted", summary="Does what the goal lists.", play=_play)
