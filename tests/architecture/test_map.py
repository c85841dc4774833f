"""The repository explains itself: every reference resolves in it, and no folder is missing from the map (SPEC X9)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("X9")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "agentops" / "docs"
KINDS = {".py", ".md", ".html", ".js", ".css", ".sql", ".toml"}
APART = ("migrations", "vendor", "__pycache__", ".venv", "demo/repository")
"""Frozen by what they are: old migrations, other people's files, the demonstration's own repository."""
ROW = re.compile(r"\bSPEC ((?:[A-X]\d+)(?:(?:, | and | to |-)[A-X]\d+)*)")
MARK = re.compile(r"mark\.spec\(([^)]*)\)")
ADR = re.compile(r"\bADR (\d{3,4})\b")
PLACE = re.compile(r"\b(architecture|reliability)#([a-z-]+)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([\w-]+))?\)")
PATH = re.compile(r"`{1,2}((?:agentops|gates|loops|templates|static|tests)/[\w./-]+\.\w+)`{1,2}")
OUTSIDE = re.compile(
    r"\b(?:ARCHITECTURE|RELIABILITY|PERFORMANCE|STYLE|HOUSE|IN-FLIGHT)(?: \d|\.md|:)|\b(?:UI|DATA|LIBRARIES)\.md"
)


def sources() -> Iterator[tuple[str, str]]:
    """Name and text of each file in which something may be referred to."""
    folders = [ROOT / name for name in ("agentops", "gates", "loops", "templates", "static", "tests")]
    files = (
        [file for folder in folders for file in folder.rglob("*")] + list(ROOT.glob("*.md")) + [ROOT / "pyproject.toml"]
    )
    for file in files:
        name = str(file.relative_to(ROOT))
        if file.suffix in KINDS and file != Path(__file__) and not any(part in name for part in APART):
            yield name, file.read_text()


def rows_in(text: str) -> set[str]:
    """Ids of requirements that a text names."""
    named = {row for found in ROW.findall(text) for row in re.findall(r"[A-X]\d+", found)}
    return named | {row for found in MARK.findall(text) for row in re.findall(r"\"([A-X]\d+)\"", found)}


def anchors(page: Path) -> set[str]:
    """Places of a page that can be pointed at: named ones, and its headings as Markdown names them."""
    text = page.read_text()
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def unresolved(name: str, text: str) -> list[str]:
    """What a file refers to and the repository does not have."""
    known = anchors(DOCS / "requirements.md")
    adrs = {file.name[:4] for file in (DOCS / "adr").glob("*.md")}
    missing = [f"{name}: SPEC {row}" for row in sorted(rows_in(text)) if row.lower() not in known]
    missing += [f"{name}: ADR {adr}" for adr in ADR.findall(text) if adr.zfill(4) not in adrs]
    missing += [
        f"{name}: {page}#{place}" for page, place in PLACE.findall(text) if place not in anchors(DOCS / f"{page}.md")
    ]
    missing += [f"{name}: {said}" for said in OUTSIDE.findall(text)]
    missing += [f"{name}: {path}" for path in PATH.findall(text) if name.endswith(".md") and not (ROOT / path).exists()]
    if name.endswith(".md"):
        missing += list(_links(name, text))
    return missing


def _links(name: str, text: str) -> Iterator[str]:
    for target, place in LINK.findall(text):
        if "://" in target or target.startswith(("mailto:", "/")):
            continue
        file = (ROOT / name).parent / target
        if not file.exists() or (place and file.suffix == ".md" and place not in anchors(file)):
            yield f"{name}: {target}{'#' if place else ''}{place}"


def test_every_reference_resolves() -> None:
    missing = [one for name, text in sources() for one in unresolved(name, text)]
    assert not missing


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(SPEC Z9, A1)", 0),
        ("(SPEC A1, A99)", 1),
        ("SPEC E1 to E77", 1),
        ('@pytest.mark.spec("A1", "W9")', 1),
        ("see ADR 9999", 1),
        ("(reliability#lease)", 0),
        ("(reliability#nothing)", 1),
        ("[map](architecture.md#layers)", 0),
        ("[map](architecture.md#cellar)", 1),
        ("[gone](gone.md)", 1),
        ("`loops/engine/decide.py`", 0),
        ("`loops/engine/gone.py`", 1),
        ("as RELIABILITY 3.1 says", 1),
        ("see UI.md", 1),
    ],
)
def test_the_scan_sees_each_form(text: str, found: int) -> None:
    assert len(unresolved("agentops/docs/page.md", text)) == found


def packages() -> list[Path]:
    """Folders of the product with Python in them, and those that hold its texts."""
    found = {file.parent for name in ("agentops", "gates", "loops") for file in (ROOT / name).rglob("*.py")}
    return sorted(
        folder for folder in found if not any(part in f"{folder}/" for part in (*APART, "docs/examples", "docs/site"))
    )


def test_every_package_has_a_caption() -> None:
    without = [
        str(folder.relative_to(ROOT))
        for folder in packages()
        if not (folder / "__init__.py").exists()
        or not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert not without


def test_no_package_is_missing_from_the_map() -> None:
    named = set(re.findall(r"^\| `([^`]+)` \|", (DOCS / "architecture.md").read_text(), re.M))
    here = {str(folder.relative_to(ROOT)) for folder in packages()}
    assert here - named == set()
    assert {name for name in named if not (ROOT / name).is_dir()} == set()


def test_every_decision_stands_below_a_topic() -> None:
    """Once, by its number and title."""
    index = (DOCS / "adr/README.md").read_text()
    for file in (DOCS / "adr").glob("0*.md"):
        title = file.read_text().partition("\n")[0].removeprefix("# ")
        assert index.count(f"[{title}]({file.name})") == 1, file.name
        assert title.startswith(f"{file.name[:4]}: ")
