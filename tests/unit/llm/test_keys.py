"""Which values of a variable are a key (SPEC S3)."""

from __future__ import annotations

import pytest

from loops.llm.endpoints import keys

pytestmark = pytest.mark.spec("S3")


@pytest.mark.parametrize("value", ["none", "lm-studio", "not_needed", ""])
def test_what_stands_for_no_key_is_none_that_would_be_sent(value: str) -> None:
    assert not keys.is_set("OPENAI_API_KEY", {"OPENAI_API_KEY": value})
    assert keys.is_set("OPENAI_API_KEY", {"OPENAI_API_KEY": "sk-0123456789"})
    assert keys.is_set("OPENAI_API_KEY", {"OPENAI_API_KEY": value, "AGENTOPS_HELD": "OPENAI_API_KEY"})
