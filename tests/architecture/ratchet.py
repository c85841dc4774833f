"""Figures of the code that may only fall: ``python -m tests.architecture.ratchet``, a part of ``make check``.

None of them is a fault by itself. Together they say whether an ordinary change gets easier or harder to make. A change
that lowers one writes the new figure here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"migrations", "examples", "scripts"}
SHORTEST_CUT = 20
"""Slices by smaller plain numbers are indexes and prefixes."""
DIALECT = re.compile(r"\b(said|told|made|nobody|somebody|whatever|goes? on)\b")
"""What a colleague elsewhere would write less often."""
NAMES_CODE = re.compile(r"`[\w/]+\.py(?:::\w+)?`|`(?:agentops|gates|loops|tests)\.(?!toml`)\w[\w.]*`")
"""A module, or something in one; folders stand on the map, which a test keeps true."""


@cache
def sources() -> dict[str, str]:
    """Of every module of the product, by its path."""
    files = (file for part in ("agentops", "gates", "loops") for file in (ROOT / part).rglob("*.py"))
    return {str(file.relative_to(ROOT)): file.read_text() for file in files if not SKIPPED & set(file.parts)}


@cache
def trees() -> tuple[ast.Module, ...]:
    return tuple(map(ast.parse, sources().values()))


def loose_modules() -> int:
    return sum(path.startswith("loops/engine/") and path.count("/") == 2 for path in sources())


def per_thousand_lines(number: int) -> float:
    return round(1000 * number / sum(source.count("\n") for source in sources().values()), 2)


def private_functions_used_once() -> float:
    return per_thousand_lines(sum(used_once(tree) for tree in trees()))


def used_once(tree: ast.Module) -> int:
    """Private functions and methods of a module that one place of it names."""
    private = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_[^_]", node.name)
    }
    named = Counter(filter(None, (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree))))
    return sum(named[name] == 1 for name in private)


def words_of_our_own() -> float:
    return per_thousand_lines(sum(len(DIALECT.findall(source)) for source in sources().values()))


def cuts_at_a_plain_number() -> int:
    """What is cut there says nowhere how long it may be: ``loops.engine.text.truncation`` does."""
    return sum(isinstance(node, ast.Slice) and is_plain_cut(node) for tree in trees() for node in ast.walk(tree))


def is_plain_cut(node: ast.Slice) -> bool:
    end = node.upper
    return (
        node.lower is None
        and isinstance(end, ast.Constant)
        and isinstance(end.value, int)
        and end.value >= SHORTEST_CUT
    )


def lines_of_markdown_that_name_code() -> int:
    """Every rename edits them by hand. The log of changes and decisions stay as they were written."""
    return sum(bool(NAMES_CODE.search(line)) for page in pages() for line in page.read_text().splitlines())


def pages() -> Iterator[Path]:
    yield from (page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md")
    yield from (page for page in (ROOT / "agentops/docs").rglob("*.md") if "adr" not in page.parts)
    yield from (ROOT / "tests").rglob("*.md")


def files_that_know(word: str) -> Callable[[], int]:
    """Modules and templates that change with one of its kind."""

    def count() -> int:
        templates = (page.read_text() for page in (ROOT / "templates").rglob("*.html"))
        return sum(bool(re.search(rf"\b{word}\b", text)) for text in (*sources().values(), *templates))

    return count


FIGURES: dict[str, tuple[Callable[[], float], float]] = {
    "modules loose in loops/engine": (loose_modules, 8),
    "private functions that one place uses, in 1,000 lines": (private_functions_used_once, 18.0),
    "words of our own dialect, in 1,000 lines": (words_of_our_own, 23.5),
    "cuts of a text at a plain number": (cuts_at_a_plain_number, 44),
    "lines of Markdown that name code": (lines_of_markdown_that_name_code, 240),
    "files that know a kind of gate (long_task)": (files_that_know("long_task"), 5),
    "files that know a limit (max_backtracks)": (files_that_know("max_backtracks"), 4),
    "files that know an end (global_cap)": (files_that_know("global_cap"), 3),
    "files that know a fact (StallDetected)": (files_that_know("StallDetected"), 5),
}
"""What is counted -> (how, and how much it may be)."""
SLACK = 0.02
"""A figure that fell by less need not be written down."""


def verdict(found: float, most: float) -> str:
    """Why a figure is a fault, or ""."""
    if found > most:
        return f"at most {most:g} so far: it may only fall"
    return f"fell from {most:g}: write the new figure into {Path(__file__).name}" if found < most * (1 - SLACK) else ""


def main() -> int:
    faults = []
    for what, (count, most) in FIGURES.items():
        found = count()
        faults.append(verdict(found, most))
        print(f"{found:>7g}  {what}{f'  <- {faults[-1]}' if faults[-1] else ''}")
    return int(any(faults))


if __name__ == "__main__":
    sys.exit(main())
