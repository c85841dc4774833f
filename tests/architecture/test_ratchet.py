"""The figures that may only fall see what they are made for. That they hold is for ``make check``."""

from __future__ import annotations

import ast

import pytest

from tests.architecture import ratchet


def test_a_figure_may_fall_and_not_rise() -> None:
    assert ratchet.verdict(6, 5) == "at most 5 so far: it may only fall"
    assert ratchet.verdict(4, 5).startswith("fell from 5: write the new figure")
    assert ratchet.verdict(5, 5) == ratchet.verdict(99, 100) == ""


@pytest.mark.spec("X5")
def test_cuts_at_plain_numbers_are_seen() -> None:
    tree = ast.parse("x[:200], x[: n + 1], x[-300:], x[:3], x[5:200], x[:LONGEST]")
    assert [ratchet.is_plain_cut(node) for node in ast.walk(tree) if isinstance(node, ast.Slice)].count(True) == 1


def test_helpers_of_one_place_are_seen() -> None:
    tree = ast.parse("def _a(): ...\ndef _b(): ...\nclass C:\n    def _d(self): self._d()\n_a(); _b(); _b()")
    assert ratchet.used_once(tree) == 2


def test_a_page_that_names_code_is_seen() -> None:
    lines = ["`loops/engine/apply.py`", "`loops.tools.limits`", "a `run` and its `status`", "`gates/policy`"]
    assert [bool(ratchet.NAMES_CODE.search(line)) for line in lines] == [True, True, False, False]
