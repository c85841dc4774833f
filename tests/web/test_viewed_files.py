"""Who accepts a result saw each of its files, on the card or opened; what nobody can be shown, nobody accepts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import expect

from gates.models import Decision, Gate
from gates.services.disclosure import proof, whole_proof
from loops.driver.gates import FILES_AT_MOST
from loops.models import Blob
from loops.tools.output import sha256_hex
from loops.tools.snapshots import file_state
from loops.workspaces import changed_files
from tests.decisions import shown_in
from tests.integration.gates.builders import World, make_world, open_gate, tool_view
from tests.web.browsing import approved_by_key, looked_at, settled
from tests.web.decision_doors import EACH_WAY, by_api

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q3", "Q5")]
Contents = dict[str, tuple[str | None, str | None]]
LONG_LINE = "a line of a large file, as they are written every day"


def stored(text: str | None) -> str:
    """Its state, with its bytes where the page finds them."""
    if text is None:
        return ""
    body = text.encode()
    Blob.objects.get_or_create(sha256=sha256_hex(body), defaults={"size": len(body), "body": body})
    return file_state(body, 0o644)


def result(world: World, contents: Contents, **more: Any) -> Gate:
    """A final review of files: path -> (text before, text after), None where there was no file."""
    changed = [{"path": path, "before": stored(old), "after": stored(new)} for path, (old, new) in contents.items()]
    view = {"result": "Done.", "criteria": [], "changed": changed, "more_changed": 0, "unrecorded": []}
    return open_gate(world, "final_review", title="Review result", call_id="", tool="", view={**view, **more})


def written(lines: int, number: int = 0) -> tuple[None, str]:
    return None, "".join(f"{number} {LONG_LINE} {line}\n" for line in range(lines))


def browser(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


# --- the rule, by every door ----------------------------------------------------------------------------------------


@EACH_WAY
def test_the_card_alone_accepts_no_file(world: World, way: Any) -> None:
    gate, client = result(world, {"a.txt": ("old\n", "new\n"), "b.txt": (None, "b\n")}), browser(world.reviewer)
    card, first, second = (proof(world.reviewer, gate, path) for path in ("", "a.txt", "b.txt"))
    for sent in (card, f"{card}.{first}", f"{card}.{second}", f"{first}.{second}", f"{card}.{first}.{first}"):
        way(client, gate, sent)
    assert not Decision.objects.exists()


def test_whoever_was_given_each_file_accepts_the_result_by_the_api(world: World) -> None:
    contents = {
        "a.txt": ("old\n", "new\n"),
        "empty.txt": (None, ""),
        "long.txt": written(12_000),
        "z.txt": (None, "z\n"),
    }
    gate, client = result(world, contents), browser(world.reviewer)
    whole = client.get(f"/api/v1/gates/{gate.pk}/").json()
    assert [(one["path"], one["shown"] is None) for one in whole["files"]] == [
        (path, path == "long.txt") for path in contents
    ]
    assert by_api(client, gate, shown_in(whole)).status_code == 422
    apart = client.get(f"/api/v1/gates/{gate.pk}/file/", {"path": "long.txt"}).json()
    assert apart["diff"].count(LONG_LINE) == 12_000
    whole["files"][2] = apart
    assert by_api(client, gate, shown_in(whole)).status_code == 201
    assert client.get(f"/api/v1/gates/{gate.pk}/file/", {"path": "none.txt"}).status_code == 404


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"more_changed": 3}, "3 more files are not listed"),
        ({"changed": [{"path": "model.bin", "before": "", "after": "large:99000000:1"}]}, "99,000,000 bytes"),
        ({"changed": [{"path": "gone.txt", "before": "", "after": file_state(b"gone", 0o644)}]}, "not stored any more"),
    ],
    ids=["not listed", "too large to be kept", "not stored"],
)
def test_what_nobody_can_be_shown_is_accepted_by_nobody(world: World, more: dict[str, Any], says: str) -> None:
    gate, client = result(world, {"a.txt": (None, "a\n")}, **more), browser(world.reviewer)
    refused = by_api(client, gate, whole_proof(world.reviewer, gate))
    assert refused.status_code == 422
    assert says in refused.content.decode()
    page = client.get(f"/review/{gate.pk}/").content.decode()
    assert "This cannot be approved: parts of it cannot be shown." in page
    assert says in page
    assert 'class="approve"' not in page
    assert "Ask for changes" in page
    asked = by_api(client, gate, "", verdict="reject", reason="Leave the model out.")
    assert asked.status_code == 201


def test_a_file_too_long_to_be_shown_at_all_says_its_true_size(world: World) -> None:
    text = "x" * 99 + "\n"
    gate = result(world, {"big.txt": (None, text * (changed_files.OPENED_BYTES // 100 + 1))})
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    assert f"{changed_files.OPENED_BYTES + 100:,} bytes" in page
    assert 'class="approve"' not in page


def test_a_file_that_becomes_a_program_says_so(world: World) -> None:
    text = stored("#!/bin/sh\n").split(":")[2]
    changed = [
        {"path": "made.sh", "before": "", "after": f"file:755:{text}"},
        {"path": "plain.txt", "before": "", "after": f"file:644:{text}"},
        {"path": "was.sh", "before": stored("old\n"), "after": f"file:4755:{text}"},
    ]
    gate = result(world, {}, changed=changed)
    client = browser(world.reviewer)
    page = client.get(f"/review/{gate.pk}/").content.decode()
    assert [word in page for word in ("permissions 755", "permissions 644 became 4755", "permissions 644<")] == [
        True,
        True,
        False,
    ]
    said = {one["path"]: one["permissions"] for one in client.get(f"/api/v1/gates/{gate.pk}/").json()["files"]}
    assert said == {"made.sh": "permissions 755", "plain.txt": "", "was.sh": "permissions 644 became 4755"}


def test_calls_that_nobody_recorded_are_confirmed_by_whoever_accepts_the_result(world: World) -> None:
    unrecorded = [{"what": "run_command", "why": "the folder was too large"}]
    gate, client = result(world, {"a.txt": (None, "a\n")}, unrecorded=unrecorded), browser(world.reviewer)
    sent = {"verdict": "approve", "digest": gate.digest, "shown": whole_proof(world.reviewer, gate)}
    page = client.post(f"/review/{gate.pk}/decide/", sent)
    assert "Not all that it changed is known: are you sure?" in page.content.decode()
    assert not Decision.objects.exists()
    assert client.post(f"/review/{gate.pk}/decide/", {**sent, "sure": "1"}).status_code == 302
    plain = result(world, {"a.txt": (None, "a\n")})
    sent = {"verdict": "approve", "digest": plain.digest, "shown": whole_proof(world.reviewer, plain)}
    assert client.post(f"/review/{plain.pk}/decide/", sent).status_code == 302


def test_what_was_deleted_needs_no_contents_to_be_accepted(world: World) -> None:
    gone = [
        {"path": "model.bin", "before": "large:99000000:1", "after": ""},
        {"path": "old.csv", "before": stored("x" * 99 + "\n" * changed_files.OPENED_BYTES), "after": ""},
    ]
    gate = result(world, {}, changed=gone)
    assert by_api(browser(world.reviewer), gate, whole_proof(world.reviewer, gate)).status_code == 201


def test_as_many_files_as_a_review_names_are_accepted(world: World) -> None:
    gate, client = (
        result(world, {f"f{at:03}": (None, f"{at}\n") for at in range(FILES_AT_MOST)}),
        browser(world.reviewer),
    )
    assert by_api(client, gate, shown_in(client.get(f"/api/v1/gates/{gate.pk}/").json())).status_code == 201


def test_another_person_s_viewing_is_worth_nothing(world: World) -> None:
    gate = result(world, {"a.txt": (None, "a\n")})
    assert by_api(browser(world.reviewer), gate, whole_proof(world.second, gate)).status_code == 422
    assert by_api(browser(world.reviewer), gate, whole_proof(world.reviewer, gate)).status_code == 201


# --- what a write counts as -----------------------------------------------------------------------------------------


def test_a_written_file_of_five_thousand_lines_is_read_once_and_can_be_approved(world: World) -> None:
    _, text = written(5_000)
    assert text is not None
    diff = "--- /dev/null\n+++ big.py\n@@ -0,0 +1,5000 @@\n" + "".join(f"+{line}\n" for line in text.splitlines())
    view = tool_view(arguments={"path": "big.py", "content": text}, diff=diff)
    gate, client = open_gate(world, view=view), browser(world.reviewer)
    page = client.get(f"/review/{gate.pk}/").content.decode()
    assert page.count(f"{LONG_LINE} 4999") == 2  # the change, and the form for edits
    assert "Shown in full in the change above." in page
    assert by_api(client, gate, whole_proof(world.reviewer, gate)).status_code == 201


@pytest.mark.parametrize("content", ["one\ntwo\nhidden\n", "two\none\n", "one\none\ntwo\n", "gone\none\n"])
def test_an_argument_that_the_change_does_not_hold_is_shown(world: World, content: str) -> None:
    view = tool_view(arguments={"path": "a.py", "content": content}, diff="--- a\n+++ a\n@@\n-gone\n+one\n+two\n")
    page = browser(world.reviewer).get(f"/review/{open_gate(world, view=view).pk}/").content.decode()
    assert "Shown in full in the change above." not in page


# --- in a browser ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q7")
def test_sixty_files_are_walked_through_with_one_key_before_it_accepts(desk: Any) -> None:
    desk.set_viewport_size({"width": 1280, "height": 1600})
    gate = result(desk.world, {f"src/part_{number:02}.py": written(12, number) for number in range(63)})
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    button = desk.locator("form.approve [data-approve]")
    expect(button).to_be_disabled()
    expect(desk.locator("[data-left]")).to_contain_text("of 63 viewed")
    desk.keyboard.press("End")
    expect(button).to_be_disabled()
    screens = desk.evaluate("document.documentElement.scrollHeight / window.innerHeight")
    # Each press leads four fifths of a screen on. Led twice through all of it, nobody would be done with so few.
    assert approved_by_key(desk, gate, presses=int(1.8 * screens)) >= screens - 1
    assert Decision.objects.get(gate=gate).verdict == "approve"


@pytest.mark.parametrize("way", ["folded", "opened"])
def test_what_folding_moves_onto_the_screen_was_not_read(desk: Any, way: str) -> None:
    """To fold the first of two files puts the second where the first was."""
    desk.set_viewport_size({"width": 1280, "height": 1200})
    gate = result(desk.world, {"a.txt": written(160), "b.txt": written(90)})
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.wait_for_timeout(600)  # so soon a key is not taken
    first = desk.locator("details[data-file='a.txt']")
    if way == "opened":
        first.locator("summary").click()
        desk.wait_for_timeout(300)
    for _ in range(40):  # through all of it, but for the last press
        if desk.locator("form.approve [data-approve]:enabled").count():
            break
        desk.keyboard.press("a")
        desk.wait_for_timeout(600)
    first.evaluate("file => { file.open = !file.open; }")
    desk.wait_for_timeout(1_000)
    desk.keyboard.press("End")
    desk.keyboard.press("a")
    desk.wait_for_timeout(600)
    settled(desk)
    assert not Decision.objects.exists()
    assert approved_by_key(desk, gate, presses=40)


def test_a_file_that_is_too_long_for_the_card_has_to_be_opened_and_seen_to_its_end(desk: Any) -> None:
    gate = result(desk.world, {"a.txt": (None, "a\n"), "big.txt": written(12_000)})
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    big = desk.locator("details[data-file='big.txt']")
    expect(big).to_contain_text("characters is too long for this page")
    desk.locator(".verdicts").scroll_into_view_if_needed()
    expect(desk.locator("[data-left]")).to_contain_text("1 of 2 viewed")
    big.locator("summary").click()
    expect(big.locator(".change-line")).to_have_count(12_003)
    expect(desk.locator("form.approve [data-approve]")).to_be_disabled()
    big.locator("[data-end]").scroll_into_view_if_needed()
    expect(big.locator("[data-viewed]")).to_be_visible()
    desk.get_by_role("button", name="Claim", exact=True).click()  # draws the card anew
    expect(desk.get_by_role("button", name="Release", exact=True)).to_be_visible()
    expect(desk.locator("[data-viewed]:visible")).to_have_count(2)
    looked_at(desk, gate)
    desk.keyboard.press("End")  # the buttons cover the end of the card where the page stands now
    desk.locator("form.approve [data-approve]").click()
    desk.locator(f"#gate-{gate.pk}").wait_for(state="detached")
    assert Decision.objects.get(gate=gate).verdict == "approve"
