"""Diffs as people see them: every line is what it is, and every count is true."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from playwright.sync_api import expect

from gates.web.cards import Card
from loops.engine.encoding.canonical import clean_json
from loops.storage.rows import SHOWN_CHARS
from loops.templatetags.loops import size_said
from loops.tools.file_changes import describe, difference
from loops.web import diffs
from tests import factories as make
from tests.integration.gates.builders import open_gate, tool_view

pytestmark = pytest.mark.spec("R4", "Q3")

BARE = difference("notes.txt", b"one\ntwo", b"one\nthree")


def said(text: str) -> list[tuple[str, str]]:
    return [(row.kind, row.text) for file in diffs.parse(text) for row in file.rows]


def test_a_removed_line_that_looks_like_a_header_is_a_removed_line() -> None:
    diff = difference("q.sql", b"-- all\n-- of it\nselect 1;\n", b"++ x\nselect 1;\n")
    (file,) = diffs.parse(diff)
    assert (file.path, file.added, file.removed) == ("q.sql", 1, 2)
    assert [kind for kind, _ in diffs.kinds(diff.splitlines())] == ["head", "head", "hunk", "del", "del", "add", "same"]


def test_only_a_newline_ends_a_line() -> None:
    (file,) = diffs.parse(difference("page", b"", "aé b\u2028c\n".encode()))
    assert (file.added, [row.text for row in file.rows[1:]]) == (1, ["aé b\u2028c"])


@pytest.mark.parametrize(("before", "after"), [(0, 50_000), (50_000, 0), (30_000, 30_000)])
def test_of_very_long_texts_every_line_is_shown(before: int, after: int) -> None:
    (file,) = diffs.parse(difference("l", b"x\n" * before, b"y\n" * after))
    assert (file.removed, file.added) == (before, after)


def test_what_stands_there_instead_of_a_diff_is_said() -> None:
    remark = f"binary file b: 2 bytes before, 1 after, not shown; SHA-256 {hashlib.sha256(bytes([254])).hexdigest()}"
    assert said(difference("b", b"\xff\1", b"\xfe")) == [("remark", remark)]
    cut = said(str(describe("c", None, b"x" * 500_000)["diff"]))
    assert cut[-1][0] == "remark"
    assert "characters of the diff cut" in cut[-1][1]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (
            "a word of German: caf\xe9\n".encode("latin-1"),
            "a word of German: caf\xe8\n".encode("latin-1"),
            ["a word of German: caf\\xe9", "a word of German: caf\\xe8"],
        ),
        (b"", b"rm -rf / #" + b"\1" * 90 + b"\n", ["rm -rf / #" + "\\x01" * 90]),
        (b"", b"rm -rf /\n" + b"\0" * 90 + b"\n", ["rm -rf /", "\\x00" * 90]),
    ],
    ids=["another alphabet", "a program with control characters", "a program with zeros"],
)
def test_every_byte_of_a_text_is_shown(before: bytes, after: bytes, shown: list[str]) -> None:
    rows = said(difference("p", before, after))
    assert [text for kind, text in rows if kind in ("add", "del")] == shown


def test_counts_go_on_where_the_rows_end() -> None:
    (file,) = diffs.parse(difference("n", b"", b"x\n" * 9_000))
    assert file.added == 9_000
    assert len(file.rows) + file.cut == 9_000 + 1


def stored(fact_value: Any, cut: int) -> Any:
    """As the rows for pages have it."""
    return clean_json(fact_value, cut)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "content", ["x" * 989_808, "x\n" * 30_000, "é" * 2_001], ids=["one line", "many lines", "wide letters"]
)
def test_a_huge_write_is_as_large_as_it_was(house: Any, content: str) -> None:
    make.step(house.run, 1)
    result = describe("big.txt", None, content.encode())
    make.tool_call(
        house.run,
        1,
        tool="write_file",
        arguments=stored({"path": "big.txt", "content": content}, SHOWN_CHARS),
        data=stored(result, 50_000),
    )
    client = house.client("viewer")
    page = client.get(f"/runs/{house.run.pk}/steps/1/").content.decode()
    assert f"{len(content):,} characters" in page
    files = client.get(f"/runs/{house.run.pk}/files/").content.decode()
    lines = content.count("\n") + (content[-1] != "\n")
    if "diff_chars" in result:
        assert f"{result['diff_chars']:,} characters" in page, "the size of the whole diff, and not of what was kept"
        assert "400,045" not in page
    for text in (page, files):
        assert "2,022 characters" not in text
        assert f'plus">+{lines:,}</span>' in text


def test_what_looks_like_the_size_of_a_text_is_text() -> None:
    forged = "x" * 2_000 + "… (5 characters)"
    assert size_said(forged[16:]) == "2,000 characters"
    assert size_said(clean_json(forged, SHOWN_CHARS)) == f"{len(forged):,} characters"
    assert size_said([1, 2]) == "2 items"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["run", "run-files", "gate"])
def test_the_remark_on_a_missing_newline_is_one_line(desk: Any, where: str) -> None:
    run = desk.world.run
    make.step(run, 1)
    make.tool_call(run, 1, tool="write_file", data={"path": "notes.txt", "diff": BARE})
    gate = open_gate(desk.world, view=tool_view(diff=BARE))
    paths = {"run": f"/runs/{run.pk}/", "run-files": f"/runs/{run.pk}/files/", "gate": f"/review/{gate.pk}/"}
    desk.goto(desk.site + paths[where])
    rows = desk.locator(".change-line" if where == "gate" else ".diff tr").filter(has_text="No newline at end of file")
    expect(rows).to_have_count(2)
    heights = rows.evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
    others = desk.locator(".change-line" if where == "gate" else ".diff tr").filter(has_text="three")
    assert max(heights) <= others.first.bounding_box()["height"] + 4


def test_a_card_has_every_line_of_its_diff() -> None:
    card = Card.__new__(Card)
    object.__setattr__(card, "view", {"diff": BARE})
    assert "\n".join(line.text for line in card.diff) + "\n" == BARE
