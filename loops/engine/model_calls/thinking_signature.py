"""Whose thinking a block is: a model takes back only its own, whatever provider it sits at (SPEC C2, E6)."""

from __future__ import annotations

from loops.engine.values import Block

THOUGHT_BY = "thought_by"
"""Key of a thinking block in the conversation: the configured model that made it. Adapters take it off."""
THINKING = frozenset({"thinking", "redacted_thinking"})


def signed(block: Block, model: str) -> Block:
    """``block`` as it is kept: thinking says which model it came from."""
    return {**block, THOUGHT_BY: model} if block.get("type") in THINKING else block


def is_foreign(block: Block, model: str) -> bool:
    """Thinking of another model than ``model``. What does not say whose it is was kept before there were fallbacks."""
    return block.get("type") in THINKING and block.get(THOUGHT_BY, model) != model
