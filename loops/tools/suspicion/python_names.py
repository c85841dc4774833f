"""What a Python module mentions, by its full name whatever it is called there, and when that line runs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from loops.tools.suspicion.changes import whole_text

Function = ast.FunctionDef | ast.AsyncFunctionDef
IMPORT, FUNCTION, MAIN = "import", "function", "main"
"""When a line runs: with the import of its module, with a call, or only as a program."""
_PROGRAM = "__main__"
_ENTRIES = ("main", "cli", "run", "entry", "command", "usage", "parse_args", "handle")


def parsed(data: bytes | None) -> ast.Module | None:
    """None where it is no Python, or too deep to be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(whole_text(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """A node and when it runs; ``is_entry``: in a function that a program begins with."""

    node: ast.AST
    runs: str
    is_entry: bool = False
    is_inner: bool = False
    """The beginning of a longer name."""


class Module:
    """One file of Python."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What was imported, by the name it has here."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    found[name.asname or name.name.partition(".")[0]] = (
                        name.name if name.asname else name.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for name in node.names:
                    found[name.asname or name.name] = f"{node.module}.{name.name}"
        return found

    @cached_property
    def own_names(self) -> frozenset[str]:
        """What is defined or assigned somewhere in it."""
        found = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    found.add(name)
        return frozenset(found)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Full names of all that it speaks of."""
        kinds = ast.Attribute | ast.Name
        return frozenset(self.dotted(node) for node in ast.walk(self.tree) if isinstance(node, kinds))

    def dotted(self, node: ast.AST) -> str:
        """``os._exit`` of each way to say so; "" for what is no name."""
        parts: list[str] = []
        while True:
            match node:
                case ast.Attribute(value=value, attr=attr):
                    parts.append(attr)
                    node = value
                case ast.Call(func=ast.Name("getattr"), args=[value, ast.Constant(str(attr)), *_]):
                    parts.append(attr)
                    node = value
                case ast.Call(func=ast.Name("__import__"), args=[ast.Constant(str(name)), *_]):
                    return ".".join([name, *reversed(parts)])
                case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(str(name)), *_]):
                    return ".".join([name, *reversed(parts)])
                case ast.Name(id=name):
                    return ".".join([self.aliases.get(name, name), *reversed(parts)])
                case _:
                    return ""

    def places(self) -> Iterator[Place]:
        """Every node with when it runs."""
        stack = [Place(self.tree, IMPORT)]
        while stack:
            place = stack.pop()
            yield place
            stack += self._below(place)

    def _below(self, place: Place) -> Iterator[Place]:
        node, runs, is_entry = place.node, place.runs, place.is_entry
        if isinstance(node, ast.If) and runs == IMPORT and is_main_guard(node.test):
            yield from (Place(child, MAIN, True) for child in node.body)
            yield from (Place(child, runs) for child in node.orelse)
            return
        if isinstance(node, Function):
            later = runs if runs == MAIN else FUNCTION
            entry = is_entry or any(word in node.name.lower() for word in _ENTRIES)
            yield from (Place(child, later, entry) for child in node.body)
            before = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
            yield from (Place(child, runs, is_entry) for child in before)
            return
        runs = FUNCTION if isinstance(node, ast.Lambda) and runs == IMPORT else runs
        inner = isinstance(node, ast.Attribute)
        yield from (Place(child, runs, is_entry, inner) for child in ast.iter_child_nodes(node))


def is_main_guard(test: ast.AST) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(one, ast.Constant) and one.value == _PROGRAM for one in (test.left, *test.comparators)
    )


def docstrings(tree: ast.Module) -> set[int]:
    """Ids of the constants that only say something."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
