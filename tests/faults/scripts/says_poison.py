"""What no storage likes, from the model's mouth and from a tool's; the kind is in the goal."""

import json
import re

from loops.engine.values import ModelRequest
from loops.llm.scripted.adapter import Script, Turn
from tests.faults.payloads import PAYLOADS, text_of


def _play(request: ModelRequest, number: int) -> Turn:
    goal = json.dumps([dict(message) for message in request.messages[:1]])
    kind = re.search(r"poison=([a-z_0-9]+)", goal).group(1)
    if kind == "bug":
        raise RuntimeError("a bug of the worker's own")
    if number == 0:
        return Turn(text=text_of(kind), calls=(("notify", {"label": "begin", "payload": PAYLOADS[kind]()}),))
    if number == 1:
        return Turn(text="now the tool", calls=(("poisoned", {"kind": kind}),))
    return Turn(text="done", calls=(("task_completion", {"result": "survived"}),))


SCRIPT = Script(name="says_poison", summary="Says what no storage likes.", play=_play)
