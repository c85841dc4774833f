"""Writes a file; when that fails it says why it tries again, and what it writes is never quite the same."""

import time

from loops.engine.values import ModelRequest
from loops.llm.conversation import tool_results
from loops.llm.scripted.adapter import Script, Turn

WHY = "Writing failed because of the disk and not because of what I wrote. I try it again, with the time of this try."


def _play(request: ModelRequest, number: int) -> Turn:
    results = list(tool_results(request.messages).values())
    if any(not failed for _, failed in results):
        return Turn(text="It is written.", calls=(("task_completion", {"result": "written"}),))
    call = ("write_file", {"path": "note.txt", "content": f"paid at {time.time_ns()}\n"})
    return Turn(text=WHY if results or number else "I write it down.", calls=(call,))


SCRIPT = Script(name="keeps_trying", summary="Writes a file until it is written.", play=_play)
