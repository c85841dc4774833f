"""Scripted models that carry out a plan: whatever has no good result yet is asked for (again)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loops.engine.values import ModelRequest
from loops.llm.conversation import blocks_of, tool_results
from loops.llm.scripted.adapter import Script, Turn

Call = tuple[str, Mapping[str, str]]


def plan(name: str, *answers: Sequence[Call], words: str = "I do what comes next.", last: Call | None = None) -> Script:
    """One answer for each group of calls, then the end."""

    def play(request: ModelRequest, number: int) -> Turn:
        good = _succeeded(request)
        for calls in answers:
            open_calls = tuple(call for call in calls if (call[0], call[1].get("label", "")) not in good)
            if open_calls:
                return Turn(text=words, calls=open_calls)
        return Turn(text=words, calls=(last or ("task_completion", {"result": f"{name}: all done"}),))

    return Script(name=name, summary=name, play=play)


def _succeeded(request: ModelRequest) -> set[tuple[str, str]]:
    results = tool_results(request.messages)
    return {
        (str(block.get("name")), str(dict(block.get("input") or {}).get("label", "")))
        for message in request.messages
        for block in blocks_of(message)
        if block.get("type") == "tool_use" and not results.get(str(block.get("id")), ("", True))[1]
    }
