"""The files a run changed, as the Files page and the final review show them: writes, moves, deletes and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from gates.models import Gate
from gates.services.refusals import GateChanged
from tests.decisions import decide
from tests.integration.gates.builders import make_world, open_gate
from tests.integration.rollback.world import WORK, Story

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q3", "R4")]

BECAME = {
    "a.txt": ("changed", "+newer a"),
    "by_command": ("created", "+x"),
    "d.txt": ("deleted", "-the first d.txt"),
    "deep/er/b.txt": ("created", "+b"),
    "e.txt": ("changed", "+mine"),
    "made/here": ("created", ""),
    "moved/c.txt": ("moved from c.txt", ""),
    "old/f.txt": ("deleted", "-the first old/f.txt"),
    "old/link": ("deleted", ""),
}


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


def page_of(person: Any, address: str) -> str:
    client = Client()
    client.force_login(person)
    return client.get(address).content.decode()


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html)).replace("&#x27;", "'")


def test_files_have_every_kind_of_change(story: Story) -> None:
    story.begin()
    page = page_of(story.boss, f"/runs/{story.run.pk}/files/")
    sections = {
        plain(one.split("</h2>")[0]).strip().rstrip("/"): plain(one) for one in page.split('<h2 class="mono wrap">')[1:]
    }
    assert set(BECAME) <= set(sections)
    for path, (what, line) in BECAME.items():
        assert what in sections[path], path
        text = re.sub(r"(?<=[+\u2212]) ", "", sections[path]).replace("\u2212", "-")
        assert line.removeprefix("+").removeprefix("-") in text, path
    assert "c.txt" not in set(sections)
    assert "Step 7, run_command: created" in sections["by_command"]


@pytest.mark.spec("Q5")
def test_the_final_review_shows_the_files_and_binds_to_them(story: Story) -> None:
    story.calls([*WORK, ("task_completion", {"result": "All is tidy."})])
    assert story.drive() == "gate:final_review"
    gate = Gate.objects.get(run=story.run, kind="final_review")
    page = page_of(story.boss, f"/review/{gate.pk}/")
    assert f'href="/runs/{story.run.pk}/files/"' in page
    files = page.split('class="changed-file"')[1:]
    assert len(files) == len(BECAME)
    for part, (path, (what, line)) in zip(files, BECAME.items(), strict=True):
        assert path in plain(part)
        assert what in plain(part)
        assert line in plain(part)
    assert {one["path"] for one in gate.view["changed"]} >= {"a.txt", "d.txt", "by_command", "moved/c.txt"}
    Gate.objects.filter(pk=gate.pk).update(view={**gate.view, "changed": []})
    with pytest.raises(GateChanged):
        decide(actor=story.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)


@pytest.mark.parametrize("where", ["files", "review"])
def test_all_that_changed_is_listed_before_the_first_diff(story: Story, where: str) -> None:
    """Each with its lines, and a link to its place on the page."""
    story.calls([*WORK, ("task_completion", {"result": "All is tidy."})])
    assert story.drive() == "gate:final_review"
    gate = Gate.objects.get(run=story.run, kind="final_review")
    page = page_of(story.boss, f"/runs/{story.run.pk}/files/" if where == "files" else f"/review/{gate.pk}/")
    listed, _, after = page.partition('<ol class="changed-index"')[2].partition("</ol>")
    links = re.findall(r'href="#([^"]+)">([^<]+)</a>', listed)
    names = [path.rstrip("/") for _, path in links]
    assert (set(BECAME) <= set(names), names == sorted(names)) == (True, True)
    assert [after.count(f'id="{place}"') for place, _ in links] == [1] * len(links)
    first = plain(listed.split("<li>")[1])
    assert ("changed" in first, "+1" in first, "\u22121" in first) == (True, True, True)
    heading = f"{len(names)} paths changed" if where == "files" else f"Files changed ({len(names)})"
    assert heading in plain(page)


def test_what_nobody_recorded_is_said() -> None:
    world = make_world()
    view = {"result": "Done.", "criteria": [], "changed": [], "more_changed": 3}
    gate = open_gate(
        world, "final_review", view={**view, "unrecorded": [{"what": "run_command make", "why": "too big"}]}
    )
    page = plain(page_of(world.reviewer, f"/review/{gate.pk}/"))
    assert "What run_command make changed is not recorded: too big." in page
    assert "3 more files are not listed here" in page


def test_a_failed_write_is_no_change(story: Story) -> None:
    story.calls([("apply_diff", {"path": "a.txt", "edits": [{"search": "nothing like it", "replace": "x"}]})])
    story.drive()
    assert "No file was changed" in page_of(story.boss, f"/runs/{story.run.pk}/files/")
