"""An agent that asks for one missing file after the other, whatever it is told, until a person puts an end to it."""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.scripted import Script, Turn
from loops.llm.turns import blocks_of


def _was_advised(request: ModelRequest) -> bool:
    texts = (str(block.get("text", "")) for message in request.messages for block in blocks_of(message))
    return any(text.startswith("A person says:") for text in texts)


def _play(request: ModelRequest, number: int) -> Turn:
    if _was_advised(request):
        return Turn(
            thinking="I never looked whether there is one.",
            text="Thank you. I had never looked.",
            calls=(("task_completion", {"result": "There is no settings file in this project."}),),
        )
    path = f"config/settings.{number + 1}.toml"
    return Turn(
        thinking="There should be a settings file. I have not looked whether there is one.",
        text=f"The settings may have another number, so I read {path} and expect the port in it.",
        calls=(("read_file", {"path": path}),),
    )


SCRIPT = Script(
    name="goes_in_circles",
    summary="Meets the same error again and again; it is helped out rung by rung, and then a person is asked.",
    play=_play,
    goal="Tell me the port in the settings.",
)
