"""One command, whose words are in the goal after a colon."""

import json

from loops.engine.values import ModelRequest
from loops.llm.scripted.adapter import Script, Turn


def _play(request: ModelRequest, number: int) -> Turn:
    if number:
        return Turn(calls=(("task_completion", {"result": "it ended"}),))
    text = json.dumps([dict(message) for message in request.messages])
    tool, command = json.loads('"' + text.partition("<tree>")[2].partition("</tree>")[0] + '"').split(":", 1)
    return Turn(calls=((tool, {"command": command}),))


SCRIPT = Script(name="grows_a_tree", summary="One command from the goal.", play=_play)
