"""Each criterion shows how well it is proved, as a word, an icon and a colour, and what keeps it from being proved."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from loops.engine import facts as f
from loops.engine.state.check import Check, CheckStatus
from loops.engine.state.evidence import Evidence
from loops.engine.state.lifecycle import Phase
from tests import factories as make
from tests.integration.gates.builders import World, make_world
from tests.web import story
from tests.web.test_pages import text_of
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
    suspicious, proof, change = "os._exit ends", "contradicted", "pricing/totals.py"
    parts = [page.get_by_text(suspicious), page.get_by_text(proof, exact=True), page.get_by_role("link", name=change)]
    for part in parts:
        expect(part).to_be_visible()
    ends = [part.evaluate("it => it.getBoundingClientRect().bottom") for part in parts]
    assert ends == sorted(ends), "what is suspicious, what proves it, what changed"
    if size[0] > 1000:
        assert ends[-1] < page.locator("[data-verdicts]").evaluate("it => it.getBoundingClientRect().top")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("LEVELS_SHOTS"):
        page.screenshot(path=Path(folder) / f"{colors}{size[0]}.png")


# --- the page of a run ------------------------------------------------------------------------------------------------


def over(house: Any, reason: str = "criteria_met", **report: Any) -> str:
    """The page of a run that ended with this report, and its line in the list of runs."""
    story.begin(house.run)
    story.end(house.run, Phase.COMMIT, reason, result="It is done.", **report)
    client = house.client("viewer")
    return text_of(client.get(reverse("run", args=[house.run.pk]))) + text_of(client.get(reverse("runs")))


def head(page: str) -> str:
    """What the end says of itself."""
    return page.partition('<section class="panel end-card"')[2].partition('<div class="panel-body')[0]


@pytest.mark.spec("C6", "N1", "R1")
@pytest.mark.parametrize(
    ("level", "look", "icon"),
    [
        ("proved", "good", "circle-check"),
        ("accepted", "good", "circle-check"),
        ("supported", "good", "circle-check"),
        ("claimed", "idle", "circle-dashed"),
        ("contradicted", "bad", "circle-x"),
    ],
)
def test_an_end_looks_no_better_than_its_weakest_level(house: Any, level: str, look: str, icon: str) -> None:
    page = over(house, evidence=level, levels={level: 2, "proved": 1}, approver="<b>ada", explanation="X")
    assert f'data-look="{look}"' in head(page)
    assert f"#{icon}" in head(page)
    count = {"proved": "1 proved", "accepted": "1 proved, 2 accepted by &lt;b&gt;ada"}.get(
        level, f"1 proved, 2 {level}"
    )
    assert count in page
    state = re.search(r'<span class="state" data-look="(\w+)">', page)
    assert state
    assert (state[1] == "good") == (look == "good"), "no green tick in any list either"
    assert ("Finished, not proven" in page) == (look != "good"), "the trace and the head say so"


@pytest.mark.spec("R1")
def test_an_end_of_an_earlier_version_looks_as_before(house: Any) -> None:
    row = {"text": "It holds", "status": "passed", "command": "pytest", "detail": "", "method": "command"}
    page = over(house, checks=[row, row | {"text": "It reads well", "status": "unproven", "method": "none"}])
    assert 'data-look="good"' in head(page)
    assert "Acceptance criteria: <strong>" not in page
    assert 'It holds <span class="sub">passed</span> </p>' in page
    assert not any(pill(level).search(page) for level in LOOKS)


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("found", "look", "title"),
    [
        (("proved", "proved"), "good", "Acceptance criteria checked: 2 proved"),
        (("proved", "supported"), "idle", "Acceptance criteria checked: 1 proved, 1 supported"),
        (("contradicted", "proved"), "bad", "Acceptance criteria checked: 1 proved, 1 contradicted"),
        (("", ""), "good", "Acceptance criteria checked</strong>"),
    ],
)
def test_the_trace_shows_what_the_checks_are_worth(house: Any, found: tuple[str, ...], look: str, title: str) -> None:
    story.begin(house.run)
    rows = [("It is " + level, Evidence(level), WHY if level else "") for level in found]
    checks = tuple(Check(text, CheckStatus.PASSED, "pytest", evidence=level, why=why) for text, level, why in rows)
    make.fact(house.run, f.ChecksCompleted(checks=checks), step=1)
    page = text_of(house.client("viewer").get(reverse("run", args=[house.run.pk])))
    assert title in page
    note = page.partition("Acceptance criteria checked")[0].rpartition('<div class="note"')[2]
    assert f'data-look="{look}"' in note
    assert [bool(pill(level).search(page)) for level in LOOKS] == [level in found for level in LOOKS]
    assert "\u202e" not in page
    assert ("as when the run began: 1 failed." in page) == any(found)
