"""Thinking goes back to the model that made it, and to no other (SPEC C2, E6)."""

from __future__ import annotations

import pytest

from loops.engine.model_calls.thinking_signature import is_foreign, signed

THOUGHTS = ({"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "d"})
TEXT = {"type": "text", "text": "hm"}


@pytest.mark.spec("C2", "E6")
@pytest.mark.parametrize("block", THOUGHTS, ids=lambda block: block["type"])
def test_a_thought_is_foreign_to_every_other_model(block: dict[str, str]) -> None:
    kept = signed(block, "big")
    assert not is_foreign(kept, "big")
    assert is_foreign(kept, "small")
    assert not is_foreign(block, "small"), "kept before there was more than one model"


@pytest.mark.spec("C2")
def test_what_was_said_aloud_is_nobodys() -> None:
    assert signed(TEXT, "big") == TEXT
    assert not is_foreign(TEXT, "small")
