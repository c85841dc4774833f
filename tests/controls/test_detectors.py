"""Every place of the code where a remark for reviewers begins is switched off once by a row of its own (SPEC L2, S1).

Counted by function: so many places, so many rows at least. A rule that is new, in a function of its own or in one that
was there, has no row yet.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.controls.guards import GUARDS, ROOT, Guard

pytestmark = pytest.mark.spec("L2", "S1")
FILES = [*(ROOT / "loops/tools/suspicion").glob("*.py"), ROOT / "loops/tools/reviewed_files.py"]
MADE = {"Remark", "Sign"}
NOTED = {"skips", "truths", "swallowed", "checks", "parameters"}
"""Of a test, what a remark is made of when there is more, or less, of it than before."""


def sources() -> dict[str, ast.Module]:
    """By the dotted path of the module."""
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): ast.parse(file.read_text()) for file in sorted(FILES)
    }


def uncontrolled(modules: Mapping[str, ast.Module], guards: Iterable[Guard]) -> dict[str, tuple[int, int]]:
    """Functions that lack rows, with how many places they have, and how many rows."""
    rows, codes = Counter(guard.path for guard in guards), _codes(modules.values())
    builders = {one.name for tree in modules.values() for one in _functions(tree) if _is_builder(one)}
    places = {
        f"{module}.{one.name}": sum(_is_place(node, codes, builders) for node in ast.walk(one))
        for module, tree in modules.items()
        for one in _functions(tree)
        if one.name not in builders
    }
    return {path: (count, rows[path]) for path, count in places.items() if rows[path] < count}


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in tree.body if isinstance(node, ast.FunctionDef))


def _codes(trees: Iterable[ast.Module]) -> frozenset[str]:
    """All that a remark can be called: some are handed on before they are one."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    first = [node.args[0] for node in nodes if _calls(node, MADE) and isinstance(node, ast.Call) and node.args]
    several = [node.value for node in nodes if isinstance(node, ast.Assign) and _named(node.targets[0]) == "_OF_TESTS"]
    found = [one for node in (*first, *several) for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return frozenset(one.value for one in found if isinstance(one.value, str))


def _is_builder(function: ast.FunctionDef) -> bool:
    """Makes a remark for whoever asks for one: who does is what counts."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
    return any(_calls(one, MADE) for one in returned)


def _is_place(node: ast.AST, codes: frozenset[str], builders: set[str]) -> bool:
    match node:
        case ast.Constant(str(code)):
            return code in codes
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=kept), attr="append")):
            return kept in NOTED
        case ast.AugAssign(target=ast.Attribute(attr=kept)):
            return kept in NOTED
    return _calls(node, builders)


def _calls(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and _named(node.func) in names


def _named(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def test_every_rule_is_switched_off_once() -> None:
    lacking = uncontrolled(sources(), GUARDS)
    assert not lacking, "rows to add (function: places, rows):\n" + "\n".join(map(str, lacking.items()))


@pytest.mark.parametrize(
    ("module", "was", "more"),
    [
        ("script_code", "if how := _how(texts, at):", "yield Sign('tampering', 'new', 'New.')"),
        ("python_code", "match place.node:", "yield _under_test('a new way', place.node)"),
        ("python_tests", "names = set()", "case.skips.append(3)"),
        ("weaker_tests", "by_subject: dict", "return 'test_removed', 'is new', 1"),
        ("goals", "class Goal:", "def more(): yield Remark('a_new_one', 'path', 'New.')"),
    ],
    ids=["by a line", "by a builder", "by a note of a test", "by its code", "in a function of its own"],
)
def test_a_new_rule_without_a_row_is_found(module: str, was: str, more: str) -> None:
    """The control of it: functions have just as many rows as they need after one more rule."""
    modules, path = sources(), f"loops.tools.suspicion.{module}"
    text = (ROOT / f"{path.replace('.', '/')}.py").read_text()
    at = text.index(was)
    indent = " " * (at - text.rindex("\n", 0, at) - 1)
    before = "@dataclass(frozen=True)\n" if module == "goals" else ""
    new = text.replace(f"{before}{indent}{was}", f"{indent}{more}\n{before}{indent}{was}", 1)
    assert new != text
    enough = Counter(guard.path for guard in GUARDS)
    counted = {name: count for name, (count, _) in uncontrolled(modules, ()).items()}
    just = [Guard(name, "L2", "", (str(one),)) for name, count in counted.items() for one in range(count)]
    assert all(enough[name] >= count for name, count in counted.items())
    assert uncontrolled(modules, just) == {}
    assert len(uncontrolled({**modules, path: ast.parse(new)}, just)) == 1
