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

from gates.models import Gate
from loops.engine import facts as f
from loops.engine.state.check import Check, CheckStatus
from loops.engine.state.evidence import Evidence
from loops.engine.state.lifecycle import Phase
from loops.engine.state.own_tests import OwnTests
from tests import factories as make
from tests.integration.gates.builders import World, make_world
from tests.web import story
from tests.web.test_manners import SMALL
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


OWN = {
    "count": 4,
    "names": ["a", "b", "c", "<b>d"],
    "ran_without": True,
    "hold_without_count": 1,
    "hold_without": ["test_<b>\u202ex"],
    "mutants": 6,
    "unnoticed": ["sums.py:12: `<` became `<=`"],
}
OWN_SAID = (
    "4 new tests, 1 of them passes without the work: test_&lt;b&gt;",
    "5 of 6 small changes of the work were noticed; not noticed: sums.py:12: `&lt;` became `&lt;=`.",
)
"""What tests are worth that the run wrote, with a name of a hostile repository."""


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


def test_a_card_says_what_new_tests_are_worth(world: World) -> None:
    gate = result(world, {"a.txt": ("old\n", "new\n")}, criteria=[criterion("proved") | {"own_tests": OWN}])
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    row = page.partition('<ul class="criteria">')[2].partition("</ul>")[0]
    assert all(said in row for said in OWN_SAID)
    assert "\u202e" not in page
    assert "test_<b>" not in page


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
TITLE = "Review result (1 proved, 1 supported, 1 claimed, 1 contradicted)"
SAID = "Amounts are rounded half up now, as the contract says.\n\nI changed to_cents and total, and wrote down why.\n"


@pytest.mark.parametrize(
    ("colors", "size"), [("light", (1440, 900)), ("dark", (1440, 900)), ("light", (390, 844)), ("dark", (390, 844))]
)
def test_what_changed_what_proves_it_and_what_is_suspicious_is_seen_at_once(
    page: Any, live_site: str, world: World, colors: str, size: tuple[int, int]
) -> None:
    gate = result(world, CHANGES, criteria=REVIEWED, remarks=ROWS[:2], result=SAID)
    Gate.objects.filter(pk=gate.pk).update(title=TITLE)
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
    buttons = page.locator("[data-verdicts]").evaluate("it => it.getBoundingClientRect().top")
    levels = page.locator(".criteria > li > .state").evaluate_all(
        "all => all.map(it => it.getBoundingClientRect().bottom)"
    )
    assert sum(end < buttons for end in levels) >= (4 if size[0] > 1000 else 3)
    if size[0] > 1000:
        assert ends[-1] < buttons
    assert page.evaluate(SMALL, ".criteria summary, .verdict-buttons .btn") == [] or size[0] > 1000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("LEVELS_SHOTS"):
        page.screenshot(path=Path(folder) / f"{colors}{size[0]}.png")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_long_reason_is_folded_and_read_whole_once_it_is_opened(
    page: Any, live_site: str, world: World, width: int
) -> None:
    """A short one is not."""
    why = f"It holds without {', '.join(f'part_{n}' for n in range(60))}, and that is all."
    rows = [criterion("contradicted", why), criterion("claimed", "It names no command.")]
    gate = result(world, {"a.txt": ("old\n", "new\n")}, criteria=rows)
    page.set_viewport_size({"width": width, "height": 844})
    client, name = Client(), settings.SESSION_COOKIE_NAME
    client.force_login(world.reviewer)
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_site}])
    page.goto(f"{live_site}/review/{gate.pk}/")
    reason = page.locator(".criteria .reason > summary > span")
    assert reason.count() == 1
    lines = reason.evaluate("it => it.getBoundingClientRect().height / parseFloat(getComputedStyle(it).lineHeight)")
    assert round(lines) == (1 if width == 390 else 2)
    reason.click()
    assert reason.evaluate("it => it.scrollHeight - it.clientHeight") <= 1
    assert (
        reason.evaluate("it => it.getBoundingClientRect().height / parseFloat(getComputedStyle(it).lineHeight)") > 2.5
    )


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


CHECKED = {"checks": [criterion("proved") | {"own_tests": OWN}]}


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
    page = over(house, evidence=level, levels={level: 2, "proved": 1}, approver="<b>ada", explanation="X", **CHECKED)
    assert page.count("Acceptance criteria: <strong>") == page.count(">Acceptance criteria") == 1
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


@pytest.mark.spec("A2", "C6")
def test_a_list_of_runs_tells_what_is_contradicted_from_what_is_only_claimed(house: Any) -> None:
    """By word, icon and colour; each has a filter of its own."""
    story.begin(house.run)
    client, address = house.client("viewer"), reverse("runs")
    shown = {
        "claimed": ("idle", "circle-dashed", "Completed"),
        "contradicted": ("bad", "triangle-alert", "Contradicted"),
    }
    for level, (look, icon, word) in shown.items():
        story.end(house.run, Phase.COMMIT, "criteria_met", evidence=level, levels={level: 1})
        row = text_of(client.get(address)).partition(f'id="run-{house.run.pk}"')[2].partition("</tr>")[0]
        assert re.search(rf'<span class="state" data-look="{look}"><svg[^>]*><use href="[^"]*#{icon}"', row), row
        assert f"{word}</span>" in row
        assert "Finished, not proven" in row
        found = [name for name in shown if f'id="run-{house.run.pk}"' in text_of(client.get(f"{address}?state={name}"))]
        assert found == [level]
        answer = client.get(f"/api/v1/runs/{house.run.pk}/").json()
        assert (answer["status"], answer["status_text"]) == ("completed", word)


@pytest.mark.spec("R1")
def test_the_end_and_the_trace_say_what_new_tests_are_worth(house: Any) -> None:
    page = over(house, evidence="proved", levels={"proved": 1}, **CHECKED)
    assert all(page.count(said) == 1 for said in OWN_SAID)
    own = OwnTests(**{name: tuple(value) if isinstance(value, list) else value for name, value in OWN.items()})
    check = Check("It is proved", CheckStatus.PASSED, "pytest", evidence=Evidence.PROVED, own_tests=own)
    make.fact(house.run, f.ChecksCompleted(checks=(check,)), step=1)
    page = text_of(house.client("viewer").get(reverse("run", args=[house.run.pk])))
    assert all(page.count(said) == 2 for said in OWN_SAID)
    assert "\u202e" not in page
    assert "test_<b>" not in page


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
