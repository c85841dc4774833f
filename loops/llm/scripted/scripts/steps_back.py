"""An agent that looks for a file that is not there, gives that up, and finds out another way."""

from __future__ import annotations

from loops.llm.scripted.adapter import Turn, script, went_well

SCRIPT = script(
    "steps_back",
    [
        Turn(
            thinking="Projects like this one keep their currency in a settings file.",
            text="I read the settings.",
            calls=(("read_file", {"path": "settings.toml"}),),
        ),
        Turn(text="Then it is called otherwise.", calls=(("read_file", {"path": "config/app.yaml"}),)),
        Turn(text="Or it lies in the folder etc.", calls=(("list_files", {"path": "etc"}),)),
        Turn(
            thinking="I guessed three times. I do not know what files there are at all.",
            text="I guessed at names instead of looking. Now I list what is there before I read anything.",
            calls=(("list_files", {"path": "."}),),
        ),
        Turn(text="There is a README.", calls=(("read_file", {"path": "README.md"}),)),
        Turn(
            text="It says so.",
            calls=(("task_completion", {"result": "There is no settings file; README.md has the rules of the shop."}),),
            only_if=went_well,
        ),
    ],
    summary="Guesses three times, is made to step back, and looks first.",
    goal="Find out where this project keeps its settings.",
)
