"""An agent that thinks for a long time in small pieces: something to stop, pause and watch."""

from __future__ import annotations

from loops.llm.scripted.adapter import Turn, script, went_well

_THOUGHT = (
    "Let me go through this slowly. There are {n} modules I have not looked at, and each of them may hold the cause. "
    "I could read them in order, or start from the failing behaviour and walk backwards. Walking backwards is shorter "
    "when the symptom is precise. It is not precise here, so I compare both before I decide. "
)
_DONE = "Six parts read, nothing changed."
_LOOKED_FOR = ("def ", "class ", "import ", "return ", "test_", "raise ")

SCRIPT = script(
    "slow_thinker",
    [
        Turn(
            thinking="".join(_THOUGHT.format(n=9 - part) for part in range(6)),
            text=f"I look at part {number + 1} next.",
            calls=(("search_files", {"pattern": pattern, "path": "."}),),
            delay=0.12,
        )
        for number, pattern in enumerate(_LOOKED_FOR)
    ]
    + [Turn(text="I have seen enough.", calls=(("task_completion", {"result": _DONE}),), only_if=went_well)],
    summary="Streams about 45 seconds of thinking before every call.",
    goal="Look through the project and tell me where to begin.",
)
