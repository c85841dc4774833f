"""The shortest useful run: write one file and be done."""

from __future__ import annotations

from loops.llm.scripted.adapter import Turn, script, went_well

SCRIPT = script(
    "writes_a_file",
    [
        Turn(
            thinking="One small file is all the task asks for.",
            text="I write the file.",
            calls=(("write_file", {"path": "hello.txt", "content": "Hello from the loop.\n"}),),
        ),
        Turn(text="Done.", calls=(("task_completion", {"result": "hello.txt is written."}),), only_if=went_well),
    ],
    summary="Writes hello.txt and completes.",
    goal="Write hello.txt with a short greeting.",
)
