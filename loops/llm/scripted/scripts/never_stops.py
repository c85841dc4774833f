"""An agent that reads one thing after another and never comes to an end: a limit has to stop it."""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.scripted.adapter import Script, Turn


def _play(request: ModelRequest, number: int) -> Turn:
    return Turn(
        thinking=f"I have looked for {number} words so far. Perhaps the next one tells me more.",
        text=f"I search for one more word, the {number + 1}th.",
        calls=(("search_files", {"pattern": f"word{number + 1}", "path": "."}),),
    )


SCRIPT = Script(
    name="never_stops",
    summary="Searches for ever, with other arguments each time.",
    play=_play,
    goal="Find out everything about this project.",
)
