"""Edits by search/replace and by unified diff: exact, or refused with what was found (SPEC I5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tools.diffs import DiffError, Edit, apply_edits, apply_unified, unified

line = st.sampled_from(["a", "b", "", "-- c", "++ d", "@@ e @@", "\\ f", " g", "h\r", "i\u2028j", "k\x0cl", "x", "y"])
texts = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(line, max_size=30), st.sampled_from(["", "\n"]))


@pytest.mark.spec("I5")
@given(before=texts, after=texts)
def test_a_unified_diff_applies_to_give_the_new_text(before: str, after: str) -> None:
    diff = unified(before, after, "f")
    assert (apply_unified(before, diff) if diff else before) == after


@given(before=texts, after=texts, lead=st.lists(st.sampled_from(["p", "q", "r"]), max_size=5))
def test_line_numbers_that_are_wrong_never_change_another_place_silently(
    before: str, after: str, lead: list[str]
) -> None:
    """Lines put above the file shift every number: the diff lands on the same text or is refused."""
    diff = unified(before, after, "f")
    if not diff:
        return
    shift = "".join(f"{item}\n" for item in lead)
    try:
        result = apply_unified(shift + before, diff)
    except DiffError:
        return
    assert result.count("\n") - before.count("\n") - len(lead) in (
        after.count("\n") - before.count("\n") + extra for extra in (-1, 0, 1)
    )


@given(before=texts, old=st.text("abxy\n", min_size=1, max_size=4), new=st.text("abxy\n", max_size=4))
def test_an_edit_replaces_exactly_one_place_or_is_refused(before: str, old: str, new: str) -> None:
    try:
        assert apply_edits(before, [Edit(old, new)]) == before.replace(old, new, 1)
        assert before.count(old) == 1
    except DiffError:
        assert before.count(old) != 1


def test_a_search_text_that_occurs_twice_names_the_lines() -> None:
    with pytest.raises(DiffError, match=r"edit 1 of 1: the search text occurs 2 times \(lines 1, 3\)"):
        apply_edits("x = 1\ny\nx = 1\n", [Edit("x = 1", "x = 2")])


def test_a_search_text_that_is_missing_shows_what_stands_there() -> None:
    with pytest.raises(DiffError, match=r"edit 2 of 2: .*Line 2 starts the same.*'    return 1'"):
        apply_edits("def f():\n    return 1\n", [Edit("def f", "def g"), Edit("\treturn 1", "return 2")])


def test_a_hunk_that_does_not_fit_names_the_line_found() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
    with pytest.raises(DiffError, match=r"hunk 1 does not fit. Line 2 is 'zwei', but the diff expects 'two'"):
        apply_unified("one\nzwei\nthree\n", diff)


def test_a_hunk_with_wrong_numbers_lands_where_its_context_is() -> None:
    assert apply_unified("a\nb\nc\nd\n", "@@ -40,2 +41,9 @@\n c\n-d\n+D\n") == "a\nb\nc\nD\n"


def test_a_hunk_that_fits_twice_is_refused() -> None:
    with pytest.raises(DiffError, match="fits at lines 1, 3 and not at line 10"):
        apply_unified("a\nb\na\nb\n" + "z\n" * 20, "@@ -10,2 +10,2 @@\n a\n-b\n+B\n")


def test_a_diff_of_two_files_is_refused() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(DiffError, match="another file"):
        apply_unified("a\n", diff)


def test_line_ends_of_windows_survive() -> None:
    assert apply_edits("a\r\nb\r\nc\r\n", [Edit("a\nb", "x\ny")]) == "x\r\ny\r\nc\r\n"
    assert apply_unified("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n").startswith("a\r\n")


def test_text_without_a_hunk_is_explained() -> None:
    with pytest.raises(DiffError, match="no hunk found"):
        apply_unified("a\n", "replace a by b")
