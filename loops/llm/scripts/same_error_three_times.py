"""An agent that runs into the same error again and again, in slightly different ways."""

from __future__ import annotations

from loops.llm.scripted import Turn, script

_PATHS = tuple(f"config/settings.{number}.toml" for number in (1, 2, 3, 4))

SCRIPT = script(
    "same_error_three_times",
    [
        Turn(
            thinking="There should be a settings file. I have not looked whether there is one.",
            text=f"I read {path}.",
            calls=(("read_file", {"path": path}),),
        )
        for path in _PATHS
    ]
    + [
        Turn(
            text="There is no settings file. I should have listed the folder first.",
            calls=(("task_completion", {"result": "There is no settings file in this project."}),),
        )
    ],
    summary="Reads a file that does not exist, three times and once more.",
    goal="Tell me the port in settings.toml.",
)
