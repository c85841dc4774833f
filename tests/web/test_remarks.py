"""What a reviewer should know stands above everything else of a result, on every screen (SPEC Q3)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import expect

from tests.integration.gates.builders import World, make_world
from tests.web.test_viewed_files import browser, result

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q3", "L2")]
ROWS = [
    {"code": "expectation_changed", "level": "suspicious", "path": "tests/test_lib.py", "line": 5,
     "text": "test_add expects -1 where it expected 3."},
    {"code": "process_end", "level": "suspicious", "path": "lib.py", "line": 9, "text": "os._exit ends the process."},
    {"code": "tests_changed", "level": "to know", "path": "tests/<b>\u202ex.py", "line": 0, "text": "<script>1"},
]  # fmt: skip


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def test_hostile_text_of_a_remark_is_only_text(world: World) -> None:
    gate = result(world, {"a.txt": ("old\n", "new\n")}, remarks=ROWS)
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    assert "<script>1" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;1" in page
    assert page.count("Suspicious</span>") == 2
    assert browser(world.reviewer).get(f"/api/v1/gates/{gate.pk}/").json()["view"]["remarks"] == ROWS


def test_a_result_without_remarks_has_no_word_of_it(world: World) -> None:
    gate = result(world, {"a.txt": ("old\n", "new\n")})
    assert "What a reviewer should know" not in browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()


@pytest.mark.parametrize(("colors", "size"), [("light", (1440, 900)), ("dark", (390, 844))])
def test_it_is_seen_without_scrolling(
    page: Any, live_site: str, world: World, colors: str, size: tuple[int, int]
) -> None:
    gate = result(world, {"a.txt": ("old\n", "new\n")}, remarks=ROWS)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=colors)
    client, name = Client(), settings.SESSION_COOKIE_NAME
    client.force_login(world.reviewer)
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_site}])
    page.goto(f"{live_site}/review/{gate.pk}/")
    for text in ("What a reviewer should know", "expects -1 where it expected 3", "os._exit ends"):
        expect(page.get_by_text(text)).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("REMARKS_SHOTS"):
        page.screenshot(path=Path(folder) / f"{colors}{size[0]}.png")
