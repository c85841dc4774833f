"""The demonstration: an agent repairs a real bug in a small library of invoices (``loops/demo/repository``).

It looks, thinks, repairs one half of the bug, sees in the tests that the other half is left, repairs that too, and
proposes its result. What it writes is the repository's own file with the lines in question replaced, so the tests
that run are real and fail and pass for real. It goes on only after results that bear out what it says next; after any
other, a rejection among them, it says what it saw and asks how to go on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loops.engine.values import Message, ModelRequest, Usage
from loops.llm.conversation import tool_results
from loops.llm.scripted.adapter import Result, Script, Turn, not_done, went_well

REPOSITORY = Path(__file__).parents[3] / "demo" / "repository"
GOAL = (
    "Customers complain that large orders get the small quantity discount. Find out why and repair it, so that the "
    "rules of the shop in README.md hold. All tests must pass."
)
_FILE = "invoices/discounts.py"
_BUG = "    for pieces, percent in QUANTITY_STEPS:\n        if quantity > pieces:\n"
_HALF = "    for pieces, percent in QUANTITY_STEPS:\n        if quantity >= pieces:\n"
_WHOLE = "    for pieces, percent in reversed(QUANTITY_STEPS):\n        if quantity >= pieces:\n"
_AGAIN, _FINISH = "Try again", "Finish without it"
_SOME_FAIL = re.compile(r"^[1-9]\d* passed, [1-9]\d* failed", re.MULTILINE)
_NONE_FAILS = re.compile(r"^[1-9]\d* passed, 0 failed", re.MULTILINE)
_STILL_AT_THE_EDGE = re.compile(r"\btest_1[01]_pieces")


def _file(replacement: str) -> str:
    source = (REPOSITORY / _FILE).read_text(encoding="utf-8")
    if _BUG not in source:
        raise ValueError(f"{_FILE} no longer holds the bug of the demonstration")
    return source.replace(_BUG, replacement)


def _usage(read: int, said: int, thought: int, cached: int = 0) -> Usage:
    return Usage(input_tokens=read, output_tokens=said, thinking_tokens=thought, cache_read_tokens=cached)


def _half_repaired(results: Sequence[Result]) -> bool:
    """Tests ran; those of 10 and 11 pieces are among the good ones, and some are not good yet."""
    text = results[0][0] if results else ""
    return bool(_SOME_FAIL.search(text)) and not _STILL_AT_THE_EDGE.search(text)


def _repaired(results: Sequence[Result]) -> bool:
    return went_well(results) and bool(results) and bool(_NONE_FAILS.search(results[0][0]))


def _stages() -> Sequence[Turn]:
    return (
        Turn(
            thinking="The complaint is about large orders, so the rule that picks the discount by quantity is the "
            "first suspect. I don't know the project yet. Before I guess, I want to see what there is.",
            text="I look at the project first.",
            calls=(("list_files", {"path": "."}),),
            usage=_usage(1840, 96, 48),
        ),
        Turn(
            thinking="discounts.py is where the steps must be. The README states the rules of the shop, and the tests "
            "say what somebody once thought they mean. I want all three side by side: if code and README disagree, the "
            "README wins.",
            text="I read the rules, the code that picks the discount, and its tests.",
            calls=(
                ("read_file", {"path": "README.md"}),
                ("read_file", {"path": _FILE}),
                ("read_file", {"path": "tests/test_discounts.py"}),
            ),
            usage=_usage(420, 164, 71, 1840),
        ),
        Turn(
            thinking="The rule says 'from 10 pieces', and the code asks for more than 10: `quantity > pieces`. So "
            "exactly 10 pieces get nothing. That is an error at the edge, and it is the same edge at 50 and 100. With "
            "`>=` each step begins where it should.",
            text="Each step begins one piece too late: the comparison has to be `>=`. I change that line.",
            calls=(("write_file", {"path": _FILE, "content": _file(_HALF)}),),
            usage=_usage(1630, 512, 90, 2260),
        ),
        Turn(
            thinking="I believe this is it, but believing is not evidence. The tests cover every step.",
            text="Now the tests have to say whether that was all.",
            calls=(("run_tests", {}),),
            usage=_usage(610, 58, 22, 3890),
        ),
        Turn(
            thinking="10 and 11 pieces are right now, 50 and 100 still get 5 percent. So the comparison was only half "
            "of it. QUANTITY_STEPS goes upwards from 10, and the loop returns at the first step that fits: 100 pieces "
            "are at least 10 pieces, so they get 5 percent, and the higher steps are never reached. That is exactly "
            "what the customers see. The loop has to begin at the highest step.",
            text="The tests show the real cause: the loop takes the first step that fits, and the lowest always fits. "
            "It has to look at the highest step first.",
            calls=(("write_file", {"path": _FILE, "content": _file(_WHOLE)}),),
            usage=_usage(980, 560, 128, 4500),
            only_if=_half_repaired,
        ),
        Turn(
            thinking="Both parts are repaired. I run everything again, not only the tests that failed.",
            text="I run all tests again.",
            calls=(("run_tests", {}),),
            usage=_usage(640, 54, 20, 5480),
        ),
        Turn(
            text="All tests pass, and the code now says what the README says.",
            calls=(("task_completion", {"result": _RESULT}),),
            usage=_usage(520, 190, 0, 6120),
            only_if=_repaired,
        ),
    )


_RESULT = (
    "Large orders got the small discount for two reasons, both in quantity_percent in invoices/discounts.py. "
    "1. The steps were tried from the lowest up, and the first that fits was taken, so 50 and 100 pieces got 5 %. They "
    "are now tried from the highest down. 2. Each step began one piece too late (> for >=), so exactly 10 pieces got "
    "nothing. Checked by running all tests. No test was changed; nothing is left open."
)


def _play(request: ModelRequest, number: int) -> Turn:
    stages = _stages()
    stage, doubt, finishes = _where(request.messages, number, stages)
    if doubt:
        return not_done(doubt) if finishes else _question(doubt)
    return replace(stages[stage], only_if=None)


def _where(messages: Sequence[Message], number: int, stages: Sequence[Turn]) -> tuple[int, Sequence[Result], bool]:
    """(stage, results to ask about, does a person want it to finish), by going through what came of each turn."""
    results = tool_results(messages)
    last = len(stages) - 1
    stage, doubt = 0, list[Result]()
    for turn in range(number):
        came = [results[call] for call in (f"s_{turn}_{at}" for at in range(3)) if call in results]
        if doubt:
            if came and "finish" in came[0][0].lower():
                return stage, doubt, True
            stage, doubt = min(stage, last - 1), []
        elif came and not (stages[min(stage + 1, last)].only_if or went_well)(came):
            doubt = came
        else:
            stage = min(stage + 1, last)
    return stage, doubt, False


def _question(results: Sequence[Result]) -> Turn:
    seen = "; ".join(text for text, _ in results)[:300]
    return Turn(
        thinking="I cannot go on from this, and I must not do the same thing in another form. So I ask.",
        text="I cannot go on from this, so I say what I saw and ask.",
        calls=(("ask_question", {"question": f"{seen} How shall I go on?", "choices": [_AGAIN, _FINISH]}),),
    )


SCRIPT = Script(
    name="repair_a_bug",
    summary="Finds and repairs a bug in a library of invoices, wrong at first; its test runs need an approval.",
    play=_play,
    goal=GOAL,
)
