"""The first page that a newcomer sees: the one behind the link that `make run` prints."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from agentops.login import links
from tests.web.browsing import faults

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X1", "T1")]
LOOK = "() => { const s = getComputedStyle(document.querySelector('.door-card')); return [s.fontFamily, s.width] }"


def test_the_printed_link_looks_like_the_login_page(live_site: str, browser: Any, theme: str, width: int) -> None:
    """Before it is used, and after."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{live_site}/login/")
    expected = page.evaluate(LOOK)
    link = live_site + links.issue(get_user_model().objects.create_superuser("admin"))
    page.goto(link)
    for state in ("fresh", "used"):
        assert page.evaluate(LOOK) == expected
        assert faults(page) == []
        if into := os.environ.get("PICTURES"):
            page.screenshot(path=f"{into}/first-{state}-{theme}-{width}.png")
        if state == "fresh":
            with page.expect_navigation():
                page.keyboard.press("Enter")
            page.wait_for_url(f"{live_site}/")
            page.goto(link)
            page.get_by_role("button", name="Log in").click()
            page.get_by_text("has been used or has expired").wait_for()
    context.close()
