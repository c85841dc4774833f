"""An agent whose result can't be checked by a machine: a person has the last word."""

from __future__ import annotations

from loops.engine.values import ModelRequest, Usage
from loops.llm.scripted.adapter import Script, Turn, went_well

_FIRST = """# Release notes

- Discounts are rounded to the cent, half up.
- Empty orders no longer raise an error.
"""
_SECOND = _FIRST + "- Nothing changes for existing invoices.\n"
_RESULT = "RELEASE.md describes the release in a few lines for customers."


def _play(request: ModelRequest, number: int) -> Turn:
    """Each pair of turns writes and proposes; what a reviewer sends back leads to the longer version."""
    revised = number >= 2
    if number % 2 == 0:
        return Turn(
            thinking="These notes are for customers: no internal names, no promises. Whether the tone is right is for "
            "a person to say.",
            text="I write the notes again, with what the review asked for." if revised else "I write the notes.",
            calls=(("write_file", {"path": "RELEASE.md", "content": _SECOND if revised else _FIRST}),),
            usage=Usage(input_tokens=1800 + 400 * number, output_tokens=160, thinking_tokens=40),
        )
    proposal = ("task_completion", {"result": _RESULT})
    return Turn(text="The notes are ready to be read.", calls=(proposal,), only_if=went_well)


SCRIPT = Script(
    name="needs_final_review",
    summary="Writes release notes and proposes them; a reviewer's remarks lead to a second version.",
    play=_play,
    goal="Write RELEASE.md for our customers.",
)
