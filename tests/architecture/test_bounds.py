"""Every bound in the code stands in ``agentops/docs/bounds.md``: what it does to people's things, and where it says so.

A bound is found by its name or its use: a number that a slice goes by, whatever it is called, and one whose name speaks
of the most, the longest or what is shown, kept or read, wherever it is used. Times and thresholds of judgement cut
nothing and are not looked for. A figure without a name cannot be listed: slices by plain numbers may only become fewer.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("X5")
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "agentops/docs/bounds.md"
SKIPPED = {"migrations", "demo", "smoke", "examples", "scripts"}
SHORTEST = 20
"""Slices by smaller plain numbers are indexes and prefixes."""
SPEAKS = {"MAX", "MOST", "LONGEST", "LARGEST", "DEEPEST", "LIMIT", "SHOWN", "KEPT", "CHARS", "BYTES", "PAGE", "READ"}
SPEAKS |= {"HELD", "REMEMBERED", "LINES", "FILES"}
NO_BOUNDS = frozenset(
    {
        "loops.engine.reducers.CHARS_PER_TOKEN",  # a rate
        "loops.tools.sandbox.landlock._READ_FILE",  # bits of the kernel's
        "loops.tools.sandbox.landlock._READ_FOLDER",
        "loops.tools.sandbox.capability.FILES_ONLY",  # a level
        "loops.web.live.hub.READ_PAUSE",  # a time
    }
)
"""Numbers that are only called like one."""
_ROW = re.compile(r"\| `(?P<name>[\w./]+)` \| (?P<rest>.*) \|")
_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def trees() -> dict[Path, ast.Module]:
    files = (file for part in ("loops", "gates", "agentops") for file in (ROOT / part).rglob("*.py"))
    return {file: ast.parse(file.read_text()) for file in files if not SKIPPED & set(file.parts)}


def module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_number(node: ast.expr | None) -> bool:
    """A figure, or figures reckoned with others."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=one):
            return is_number(one)
        case ast.BinOp(left=one, right=other):
            return is_number(one) and (is_number(other) or isinstance(other, ast.Name))
    return False


def named() -> dict[str, str]:
    """Qualified name -> bare name of every numeric constant, and of the figures that bound tools."""
    found = {}
    for file, tree in trees().items():
        for node in tree.body:
            for target, value in assigned(node):
                if isinstance(target, ast.Name) and target.id.isupper() and is_number(value):
                    found[f"{module(file)}.{target.id}"] = target.id
            if isinstance(node, ast.ClassDef) and (module(file), node.name) == ("loops.tools.limits", "Limits"):
                fields = [one.target.id for one in node.body if isinstance(one, ast.AnnAssign)]  # type: ignore[union-attr]
                found |= {f"{module(file)}.Limits.{name}": name for name in fields if name != "protected"}
    return found


def assigned(node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """(name, value) of what a statement of a module names."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            yield from zip(names, values, strict=True)
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
            yield target, value


def cutting(tree: ast.Module) -> Iterator[str]:
    """Names that a slice of so many, from the beginning or from the end, is reckoned by."""
    for node in ast.walk(tree):
        match node:
            case ast.Slice(upper=ast.expr() as end):
                yield from names_in(end)
            case ast.Slice(lower=ast.UnaryOp() as beginning):
                yield from names_in(beginning)


def names_in(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr


@cache
def used() -> tuple[frozenset[str], frozenset[str]]:
    """(names that slices end at, all names that are read)."""
    return (
        frozenset(name for tree in trees().values() for name in cutting(tree)),
        frozenset(name for tree in trees().values() for name in names_in(tree)),
    )


def bounds() -> set[str]:
    slices, read = used()
    return {
        name
        for name, bare in named().items()
        if ".Limits." in name or (bare in slices and name not in NO_BOUNDS) or (speaks(name, bare) and bare in read)
    }


def speaks(name: str, bare: str) -> bool:
    return bool(SPEAKS & set(bare.split("_"))) and not bare.endswith("_S") and name not in NO_BOUNDS


def plain_cuts() -> Counter[str]:
    """File -> slices by a plain number."""
    found: Counter[str] = Counter()
    for file, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Slice(lower=None, upper=ast.Constant(value=int(most))) if most >= SHORTEST:
                    found[str(file.relative_to(ROOT))] += 1
    return found


def rows(heading: str) -> dict[str, str]:
    """Name -> the rest of its row, of the tables below a heading."""
    part = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {row["name"]: row["rest"] for line in part.splitlines() if (row := _ROW.fullmatch(line))}


BITES, HARMLESS, PLAIN = "What bites", "What nobody loses anything by", "Figures without a name"


def test_every_bound_is_listed_and_every_listed_bound_is_there() -> None:
    listed = [*rows(BITES), *rows(HARMLESS)]
    assert len(listed) == len(set(listed)), "listed twice"
    assert bounds() - set(listed) == set(), "say in agentops/docs/bounds.md what happens where this one is reached"
    assert set(listed) - bounds() == set(), "no bound any more"


def test_what_bites_says_where_and_names_a_test_that_bites() -> None:
    for name, rest in rows(BITES).items():
        said, test = (cell.strip() for cell in rest.split(" | "))
        assert said, name
        assert _TEST.search(test), f"{name}: no test makes it bite"
        for file, function in _TEST.findall(test):
            assert f"def {function}(" in (ROOT / "tests" / file).read_text(), f"{name}: {file}::{function}"


def test_figures_without_a_name_become_fewer() -> None:
    allowed = {name: int(rest) for name, rest in rows(PLAIN).items()}
    found = plain_cuts()
    more = {file: count for file, count in found.items() if count > allowed.get(file, 0)}
    assert not more, "give the figure a name, and list it"
    assert not {file for file, count in allowed.items() if found[file] < count}, "lower the number in bounds.md"


def test_a_new_bound_is_noticed() -> None:
    """The scan sees each of the forms that it is made for."""
    body = "return x[: FEW + 1], x[AT:], x[-LAST:], x[0], len(x) > limits.most, g(x, TO)"
    tree = ast.parse(f"AT, TO = 1, 2\nFEW = 3\ndef f(x):\n    {body}")
    assert {target.id for node in tree.body for target, _ in assigned(node)} == {"AT", "TO", "FEW"}  # type: ignore[attr-defined]
    assert set(cutting(tree)) == {"FEW", "LAST"}
    assert set(names_in(tree)) == {"x", "FEW", "AT", "TO", "LAST", "len", "g", "limits", "most"}
    assert speaks("a.MOST_NAMES", "MOST_NAMES")
    assert not speaks("a.THREADS", "THREADS")
    assert not speaks("a.LONGEST_S", "LONGEST_S")
