"""Each criterion shows how well it is proved, as a word, an icon and a colour, and what keeps it from being proved."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from tests.integration.gates.builders import World, make_world
from tests.web.test_remarks import ROWS
from tests.web.test_viewed_files import browser, result

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q3", "L2", "X4")]
LOOKS = {"proved": "good", "accepted": "good", "supported": "idle", "claimed": "idle", "contradicted": "bad"}
WHY = "It fails with tests/<b>\u202ex.py as when the run began: 1 failed."


def criterion(level: str, why: str = "", **more: str) -> dict[str, str]:
    row = {"text": f"It is {level}", "command": "pytest -q", "status": "passed", "detail": "", "method": "command"}
    return row | ({"evidence": level, "why": why} if level else {}) | more


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def pill(level: str) -> re.Pattern[str]:
    return re.compile(
        rf'<span class="state" data-look="{LOOKS[level]}" title="[^"]+"><svg[^>]*>.*?</svg>{level}</span>'
    )


# --- the card of a final review ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LOOKS)
def test_a_card_shows_the_level_of_each_criterion_and_why(world: World, level: str) -> None:
    gate = result(world, {"a.txt": ("old\n", "new\n")}, criteria=[criterion(level, WHY)])
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    assert pill(level).search(page)
    assert "as when the run began: 1 failed." in page
    assert "\u202e" not in page
    assert "tests/<b>" not in page
    assert "passed" in page.partition(f"It is {level}")[2][:60]


def test_a_card_of_an_earlier_version_looks_as_before(world: World) -> None:
    rows = [criterion(""), criterion("", text="Nobody knows", status="unproven", command="", method="none")]
    gate = result(world, {"a.txt": ("old\n", "new\n")}, criteria=rows)
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    assert '<span class="state" data-look="good">passed</span>' in page
    assert '<span class="state" data-look="wait">unproven</span>' in page
    assert not any(pill(level).search(page) for level in LOOKS)


REVIEWED = [
    criterion("proved", text="The tests of rounding pass", command="python3 -m pytest tests/test_rounding.py -q"),
    criterion(
        "contradicted",
        "It holds as well when the functions that the run changed raise an error: pricing/rounding.py: to_cents.",
        text="Totals are right",
        command="make check-totals",
    ),
    criterion(
        "supported",
        "Its command reports no single tests: only its exit code says that it holds.",
        text="The build goes through",
        command="./build.sh",
    ),
    criterion("claimed", "It names no command.", text="It reads well", command="", status="unproven", method="none"),
]
CHANGES = {
    "pricing/rounding.py": ("a\nb\nc\n", "a\nB\nc\nd\n"),
    "pricing/totals.py": ("x\n" * 30, "x\n" * 20 + "y\n" * 15),
    "docs/rounding.md": (None, "How amounts are rounded.\n"),
}
SAID = "Amounts are rounded half up now, as the contract says.\n\nI changed to_cents and total, and wrote down why.\n"


@pytest.mark.parametrize(("colors", "size"), [("light", (1440, 900)), ("dark", (390, 844))])
def test_what_changed_what_proves_it_and_what_is_suspicious_is_seen_at_once(
    page: Any, live_site: str, world: World, colors: str, size: tuple[int, int]
) -> None:
    gate = result(world, CHANGES, criteria=REVIEWED, remarks=ROWS[:2], result=SAID)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=colors)
    client, name = Client(), settings.SESSION_COOKIE_NAME
    client.force_login(world.reviewer)
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_site}])
    page.goto(f"{live_site}/review/{gate.pk}/")
    if folder := os.environ.get("LEVELS_SHOTS"):
        page.screenshot(path=Path(folder) / f"{colors}{size[0]}.png")
        page.screenshot(path=Path(folder) / f"{colors}{size[0]}-whole.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
