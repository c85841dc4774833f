"""Labels of settings in Admin: words of the field, with their units (SPEC S1, X6)."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests import factories as make
from tests.web.conftest import House

pytestmark = pytest.mark.spec("S1", "X6")
POLICY = (
    "Late after (minutes)", "Expires after (minutes)", "Warn at (share of a limit)", "Max tool calls per turn",
    "Judge confidence every (steps)", "Max open runs per person",
)  # fmt: skip
MODEL = (
    "API key variable", "Base URL", "Allow this address", "Tools as XML", "Timeout to first token (s)",
    "Timeout between tokens (s)", "Context window (tokens)", "Max calls at once",
)  # fmt: skip
WERE = (
    "Sla minutes",
    "Calls per reply",
    "Xml tools",
    "Api key env",
    "Send it there",
    "to the first byte",
    "between bytes",
)


def page(house: House, name: str, pk: object) -> str:
    return house.client("admin").get(reverse(f"admin:loops_{name}_change", args=[pk])).content.decode()


def test_settings_have_the_words_that_people_search_for(house: House) -> None:
    policy = page(house, "policy", house.project.policy.pk)
    model = page(house, "modelconfig", make.model().pk)
    assert [label for label in POLICY if label not in policy] == []
    assert [label for label in MODEL if label not in model] == []
    assert [label for label in WERE if label in policy or label in model] == []
