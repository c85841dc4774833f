"""Tools that end a step: the model says it is done, asks, or talks. The engine handles them; nothing runs (SPEC C3)."""

from __future__ import annotations

from loops.engine.values import Access, Danger, Json, Reversibility, ToolSpec
from loops.tools.arguments import schema, string
from loops.tools.registry import Tool

_CHOICES: dict[str, Json] = {
    "type": "array",
    "description": "Answers to choose from, when they are known.",
    "items": {"type": "string", "minLength": 1, "maxLength": 500},
    "minItems": 2,
    "maxItems": 12,
}

_UNSURE = string("What you are not sure of, if anything, in any language. A person may be asked to look.")

TOOLS = (
    Tool(
        ToolSpec(
            name="task_completion",
            description="Say that the task is done. Use it once, when everything asked for has been done and checked.",
            parameters=schema(
                ("result",),
                result=string("What was achieved, for the person who asked.", minLength=1),
                summary=string("One sentence for lists."),
                unsure=_UNSURE,
            ),
            operation="finish",
            reversibility=Reversibility.PURE,
            danger=Danger.LOW,
            default_access=Access.ALLOW,
            loop_breaking=True,
        )
    ),
    Tool(
        ToolSpec(
            name="ask_question",
            description="Ask the person something that only they can answer, then wait for the answer.",
            parameters=schema(
                ("question",),
                question=string("One clear question.", minLength=1),
                choices=_CHOICES,
                unsure=_UNSURE,
            ),
            operation="ask",
            reversibility=Reversibility.PURE,
            danger=Danger.LOW,
            default_access=Access.ALLOW,
            loop_breaking=True,
        )
    ),
    Tool(
        ToolSpec(
            name="converse",
            description="Say something to the person without doing anything else.",
            parameters=schema(("message",), message=string("What to say.", minLength=1), unsure=_UNSURE),
            operation="ask",
            reversibility=Reversibility.PURE,
            danger=Danger.LOW,
            default_access=Access.ALLOW,
            loop_breaking=True,
        )
    ),
)
