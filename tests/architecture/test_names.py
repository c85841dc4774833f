"""Packages, modules and public classes are named by nouns that a colleague elsewhere would look for (ADR 0059)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APART = ("/migrations/", "/demo/repository/", "/docs/", "/scripts/")
"""Named by Django, by a demonstration, by examples for others, and by what a scripted model does."""
NOUNS = {
    "backtracking", "encoding", "escaping", "finding", "formatting", "masking", "meaning", "pruning", "steering",
    "drawing", "ending", "recording", "wording",
}  # fmt: skip
"""They end like gerunds, and are the names of things or of a discipline."""
PRIVATE = {
    "beneath", "bell", "circle", "circles", "desk", "doubt", "everywhere", "fold", "hand", "leash", "mail", "mailbox",
    "noticed", "obeyed", "outlook", "reach", "rung", "said", "sight", "standing", "tail", "told", "words",
}  # fmt: skip
STORED = {"loops/engine/text/failure_words.py"}
"""A table of words, which is what it is called."""


def words_of(name: str) -> list[str]:
    """Of ``ToolCalls`` and of ``tool_calls``: tool, calls."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def faults(name: str) -> list[str]:
    """The gerund that a name ends in, and a private word that is all of it."""
    words = words_of(name)
    gerund = re.fullmatch(r"\w{2,}ing", words[-1]) and words[-1] not in NOUNS
    return [name] if gerund or (len(words) == 1 and words[0] in PRIVATE) else []


def files() -> Iterator[Path]:
    for package in ("agentops", "gates", "loops"):
        for file in (ROOT / package).rglob("*.py"):
            if not any(part in f"/{file.relative_to(ROOT)}" for part in APART):
                yield file


def test_modules_and_packages_are_nouns() -> None:
    named = {file.parent if file.name == "__init__.py" else file for file in files()}
    found = [str(file.relative_to(ROOT)) for file in named if faults(file.stem)]
    assert sorted(set(found) - STORED) == []


def test_public_classes_are_nouns() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {node.name}"
        for file in files()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and faults(node.name)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("driving", True),
        ("ToolRecovering", True),
        ("Desk", True),
        ("MailboxItem", False),
        ("string", True),
        ("pruning", False),
        ("ring", False),
        ("session", False),
    ],
)
def test_the_rule_sees_each_form(name: str, wrong: bool) -> None:
    assert bool(faults(name)) is wrong
