"""An agent that needs to know something before it can go on, and uses the answer."""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.conversation import tool_results
from loops.llm.scripted.adapter import Script, Turn, went_well

QUESTION = "Which greeting should the page have: a formal or a friendly one?"


def _play(request: ModelRequest, number: int) -> Turn:
    if number == 0:
        return Turn(
            thinking="The task says 'a greeting' and does not say for whom. The two readings give different files. "
            "That is a person's decision.",
            text="The task can be read in two ways, so I ask before I write anything.",
            calls=(("ask_question", {"question": QUESTION, "choices": ["formal", "friendly"]}),),
        )
    answer, _ = tool_results(request.messages).get("s_0_0", ("friendly", False))
    greeting = "Good day." if "formal" in answer.lower() else "Hello there!"
    if number == 1:
        return Turn(
            text=f"The answer was: {answer.strip()[:80]}. I write the page accordingly.",
            calls=(("write_file", {"path": "greeting.txt", "content": f"{greeting}\n"}),),
        )
    return Turn(
        text="The page is written.",
        calls=(("task_completion", {"result": f"greeting.txt says: {greeting}"}),),
        only_if=went_well,
    )


SCRIPT = Script(
    name="asks_a_question",
    summary="Asks a question with choices, waits, and acts on the answer.",
    play=_play,
    goal="Write greeting.txt with a greeting for visitors.",
)
