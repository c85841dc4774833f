"""What people read is worded as they know it from elsewhere (docs/words-on-pages.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ = ("gates/web", "gates/policy", "gates/templatetags", "loops/web", "loops/templatetags", "agentops/ops")
"""Packages whose strings reach pages; templates do as a whole."""
DIALECT = (
    r"\bgo(es)? on\b",
    r"\blet go\b",
    r"\bput right\b",
    r"\bleft alone\b",
    r"\bmade again\b",
    r"\bchanged back\b",
    r"\bin circles\b",
    r"\brang\b",
    r"\bof no help\b",
    r"\bat rest\b|\bit rests\b",
    r"\bthe real thing\b",
    r"\bHow far\b",
    r"\bStops next\b",
    r"\bMoving parts\b",
    r"\bwaits on\b",
    r"\bWaiting in line\b",
    r"\bWay of working\b",
    r"\bword by word\b",
    r"\blooked at the world\b",
)
BEFORE = re.compile("|".join(DIALECT), re.IGNORECASE)
MARKUP = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL)


def of_template(source: str) -> Iterator[str]:
    yield from (" ".join(part.split()) for part in re.split(r"\0+", MARKUP.sub("\0", source)) if part.strip())
    yield from re.findall(r'(?:title|aria-label|placeholder)="([^"]+)"', source)


def of_module(source: str) -> Iterator[str]:
    """Its strings, without docstrings and comments below constants."""
    tree = ast.parse(source)
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def texts() -> Iterator[tuple[Path, str]]:
    for path in (ROOT / "templates").rglob("*.html"):
        yield from ((path, text) for text in of_template(path.read_text()))
    for folder in READ:
        for path in (ROOT / folder).rglob("*.py"):
            yield from ((path, text) for text in of_module(path.read_text()))


def test_pages_speak_the_language_of_the_field() -> None:
    found = [f"{path.relative_to(ROOT)}: {text}" for path, text in texts() if BEFORE.search(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["<p>It goes on by itself.</p>", '<a title="left alone">x</a>'])
def test_a_word_of_before_is_found_in_a_template(text: str) -> None:
    """The control."""
    assert any(BEFORE.search(part) for part in of_template(text))


def test_a_word_of_before_is_found_in_a_string() -> None:
    """The control: not in what only developers read."""
    source = '"""It goes on."""\nX = f"rang {1} s ago"\n"""left alone"""\n'
    assert [text for text in of_module(source) if BEFORE.search(text)] == ["rang "]
