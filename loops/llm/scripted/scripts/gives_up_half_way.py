"""An agent that rearranges files and then refuses to go on: what it did so far can be kept or rolled back."""

from __future__ import annotations

from loops.engine.values import StopReason
from loops.llm.scripted.adapter import Turn, script

SCRIPT = script(
    "gives_up_half_way",
    [
        Turn(
            thinking="Printing on paper deserves a module that says so.",
            text="First I move the module to its new name.",
            calls=(("move_file", {"path": "invoices/printing.py", "target": "invoices/paper/layout.py"}),),
        ),
        Turn(
            text="The package needs a file that makes it one.",
            calls=(("write_file", {"path": "invoices/paper/__init__.py", "content": '"""Invoices on paper."""\n'}),),
        ),
        Turn(
            text="I note what is left to do.",
            calls=(("write_file", {"path": "NOTES.md", "content": "- Change every import of printing.\n"}),),
        ),
        Turn(
            thinking="Every caller has to change now, and I was told not to touch the tests.",
            text="I cannot finish this without changing files that I may not change.",
            stop=StopReason.REFUSAL,
        ),
    ],
    summary="Moves and writes files, then refuses: roll back, keep or continue.",
    goal="Give printing on paper a package of its own.",
)
