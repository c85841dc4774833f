"""An agent that asks for one missing file after the other, whatever it is told, until a person puts an end to it."""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.conversation import was_advised
from loops.llm.scripted.adapter import Script, Turn


def _play(request: ModelRequest, number: int) -> Turn:
    if was_advised(request.messages):
        result = "None of the names that I tried exists. I never listed what there is."
        return Turn(
            thinking="I never looked whether there is one.",
            text="Thank you. I had never looked.",
            calls=(("task_completion", {"result": result}),),
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
