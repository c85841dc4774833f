"""A recovery compares the world with what INTENT expected: before, after, or somebody else's (SPEC J2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.ports import Verified
from tests.unit.tools.harness import Desk

EDITS = [{"search": "one", "replace": "one and two"}]
CALLS: dict[str, tuple[str, dict[str, Any], Callable[[Path], object]]] = {
    # name, arguments, what somebody else does meanwhile
    "write": ("write_file", {"path": "a", "content": "new"}, lambda folder: (folder / "a").write_text("theirs")),
    "edit": ("apply_diff", {"path": "a", "edits": EDITS}, lambda folder: (folder / "a").write_text("one, theirs")),
    "diff": (
        "apply_diff",
        {"path": "a", "diff": "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+uno\n"},
        lambda folder: (folder / "a").write_text("theirs"),
    ),
    "move": ("move_file", {"path": "a", "target": "b"}, lambda folder: (folder / "b").write_text("theirs")),
    "delete": ("delete_file", {"path": "a"}, lambda folder: (folder / "a").write_text("theirs")),
}


class Interrupted:
    """A call with the expectations that the driver writes into its INTENT."""

    def __init__(self, folder: Path, name: str, arguments: dict[str, Any]) -> None:
        self.desk = Desk(folder)
        (self.desk.workspace / "a").write_text("one\n")
        self.name, self.arguments = name, arguments
        before = self.look()
        view = self.desk.judge(name, **arguments).view
        after = {view["path"]: view["after_sha256"]} if "after_sha256" in view else {}
        self.context = replace(self.desk.context, expects={"before": before, "after": after})

    def look(self) -> dict[str, Any]:
        return asyncio.run(self.desk.service.look(self.desk.call(self.name, **self.arguments), self.desk.context))

    def verify(self) -> Verified:
        return asyncio.run(self.desk.service.verify(self.desk.call(self.name, **self.arguments), self.context))


@pytest.fixture(params=CALLS.values(), ids=CALLS)
def case(request: Any, tmp_path: Path) -> tuple[Interrupted, Callable[[Path], object]]:
    name, arguments, meddle = request.param
    return Interrupted(tmp_path, name, arguments), meddle


@pytest.mark.spec("J2")
def test_as_before_it_was_not_done(case: Any) -> None:
    call, _ = case
    assert call.verify() is Verified.NOT_DONE


@pytest.mark.spec("J2")
def test_as_after_it_was_done(case: Any) -> None:
    call, _ = case
    assert call.desk.run(call.name, **call.arguments).ok
    assert call.verify() is Verified.DONE
    assert call.look() != call.context.expects["before"]


@pytest.mark.spec("J2")
def test_neither_is_for_a_person_to_say(case: Any) -> None:
    """Somebody else changed it: nothing is overwritten on a guess."""
    call, meddle = case
    meddle(call.desk.workspace)
    assert call.verify() is Verified.UNKNOWN


def test_what_names_no_file_is_not_looked_at(tmp_path: Path) -> None:
    assert Interrupted(tmp_path, "run_command", {"command": "ls"}).look() == {}
