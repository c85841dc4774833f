"""The code in the guides is the code of the packages that the tests install: neither can drift (SPEC X9)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("X9")
DOCS = Path(__file__).parents[2] / "agentops" / "docs"
GUIDES = {"tool": "acme-rooms", "provider": "acme-models", "agent": "acme-careful", "execution-loop": "acme-agentops"}
"""Guide -> the package that it shows, whole."""
BLOCK = re.compile(r"^\*\*([\w./\\-]+)\*\*\n\n(`{3,})\w+\n(.*?)^\2$", re.M | re.S)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_shows_its_package_whole_and_word_for_word(guide: str) -> None:
    package = DOCS / "examples" / GUIDES[guide]
    files = {str(file.relative_to(package)): file.read_text() for file in package.rglob("*.*") if _is_source(file)}
    shown = {
        name.replace("\\", ""): code for name, _, code in BLOCK.findall((DOCS / "guides" / f"{guide}.md").read_text())
    }
    assert shown == files


def test_every_guide_has_its_package() -> None:
    assert {file.stem for file in (DOCS / "guides").glob("*.md")} == set(GUIDES)


def _is_source(file: Path) -> bool:
    return file.is_file() and file.suffix in {".py", ".toml", ".md"}
