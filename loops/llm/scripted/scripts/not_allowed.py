"""An agent that is not allowed to delete: it is told so, tries another way of the same, and adapts to the answer.

Its rules are those of its agent type, ``cautious``. Granted the call, it goes on; advised or refused, it moves the file
aside instead, which it may.
"""

from __future__ import annotations

from collections.abc import Mapping

from loops.engine.values import ModelRequest
from loops.llm.conversation import tool_results
from loops.llm.scripted.adapter import Script, Turn, went_well

AGENT_TYPE = "cautious"
_OLD = "invoices/printing.py"


def _play(request: ModelRequest, number: int) -> Turn:
    results: Mapping[str, tuple[str, bool]] = tool_results(request.messages)
    if number == 0:
        return Turn(
            thinking="Nothing imports printing.py any more. The tidy thing is to delete it.",
            text="printing.py is not used any more, so I delete it.",
            calls=(("delete_file", {"path": _OLD}),),
        )
    if number == 1:
        return Turn(
            thinking="Not allowed, it says. Perhaps it is the way I wrote the path, and not deleting as such.",
            text="That was not allowed. I try it with the path written out.",
            calls=(("delete_file", {"path": f"./{_OLD}"}),),
        )
    granted = not results.get("s_1_0", ("", True))[1]
    if number == 2 and not granted:
        return Turn(
            thinking="Deleting is not for me to do. Moving it aside has the same use and loses nothing.",
            text="I am not allowed to delete, so I move the file aside instead. A person can delete it later.",
            calls=(("move_file", {"path": _OLD, "target": f"unused/{_OLD.rsplit('/', 1)[-1]}"}),),
        )
    done = f"{_OLD} was deleted, as granted." if granted else f"{_OLD} lies in unused/ now; nothing was deleted."
    return Turn(text="That is done as far as I may.", calls=(("task_completion", {"result": done}),), only_if=went_well)


SCRIPT = Script(
    name="not_allowed",
    summary="Wants to delete and may not: told what it may use, then a person is asked, and it adapts.",
    play=_play,
    goal="Tidy up: remove what is not used any more.",
)
