"""An agent that looks at everything and gets nowhere: whoever judges its confidence says so, and a person is asked.

After a person's guidance it writes down what it found and completes. Let go on without any, it looks on.
"""

from __future__ import annotations

from loops.engine.values import ModelRequest, ModelRole
from loops.llm.conversation import was_advised
from loops.llm.scripted.adapter import Script, Turn, went_well

_LOOKS = (
    ("I begin with the project as a whole.", "list_files", {"path": "."}),
    ("Perhaps the rounding is in money.py.", "read_file", {"path": "invoices/money.py"}),
    ("Or does tax.py round before it adds?", "read_file", {"path": "invoices/tax.py"}),
    ("I look for every place that rounds.", "search_files", {"pattern": "round|quantize", "path": "."}),
    ("I am not sure which of these is meant.", "read_file", {"path": "invoices/invoice.py"}),
    ("I still don't know whether this is a bug at all.", "read_file", {"path": "invoices/discounts.py"}),
    ("Once more from the beginning.", "read_file", {"path": "README.md"}),
)
_NOTES = "# Rounding\n\nRounded once, at the end, as README.md asks. Nothing was changed.\n"
_LOW = (
    '{"confidence": 0.25, "progress": 0.1, "reason": "It has read most files, changed nothing and checked nothing, and '
    'it says itself that it does not know what is meant."}'
)
_BETTER = '{"confidence": 0.8, "progress": 0.6, "reason": "It follows a person\'s advice and has written its finding."}'


def _play(request: ModelRequest, number: int) -> Turn:
    said = str(request.messages)
    if was_advised(request.messages) and "ROUNDING.md" not in said:
        return Turn(
            thinking="That answers it: the rounding is as it should be, and what is missing is a note.",
            text="Thank you. I write down what I found.",
            calls=(("write_file", {"path": "ROUNDING.md", "content": _NOTES}),),
        )
    if "ROUNDING.md" in said or number >= len(_LOOKS):
        result = "Prices are rounded once, at the end, as README.md asks. No bug was found."
        done = ("task_completion", {"result": result})
        return Turn(text="That is all there is to find.", calls=(done,), only_if=went_well)
    text, tool, arguments = _LOOKS[number]
    return Turn(thinking="I need to see more before I dare to change anything.", text=text, calls=((tool, arguments),))


def _judged(request: ModelRequest) -> str:
    return _BETTER if "write_file" in str(request.messages) else _LOW


SCRIPT = Script(
    name="loses_confidence",
    summary="Reads and reads; its confidence falls below the threshold, and a person is asked.",
    play=_play,
    answers={ModelRole.CONFIDENCE: _judged},
    goal="Somebody says that prices are rounded wrongly. Find out whether that is so.",
)
