"""Which rows of guards ask the very function that they switch off: such a test proves what the function says, and
nothing of whether anybody asks it. A guard is proven by what is noticed without it, when the same case is played at a
door of its module, or above.

A *door* is a function that is called from outside of the code, so that calling it is what a person, a program, a worker
or the engine does. It is known by where it is:

* pages, endpoints, forms of the admin and commands, which a framework calls, and what stands at the server's edge;
* a public name of the services that one of those, a job or a worker uses;
* a method of a port of the driver (``loops/driver/ports.py``), which knows what is behind it by nothing else.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from typing import get_type_hints

from celery.exceptions import NotRegistered

from loops.driver.ports import Ports
from tests.controls.guards import ROOT, Guard
from tests.controls.switch import Stale, find, plain

OUTSIDE = {"web", "api", "admin", "commands", "edge"}
USERS = {"web", "api", "admin", "management", "edge", "runs", "jobs.py"}
"""From where services are used."""

DECLARING = {"loops.tools.decorator.DeclaredTool.undo": "authors of tools write it as a decorator"}
"""Doors that no place tells, with the reason."""

Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_door(guard: Guard) -> bool:
    """May its tests call it? Nothing that was made to return something else: a test would hear that, and no more."""
    *rooms, name = guard.path.split(".")
    is_public = not name.startswith("_") or name == "__call__"
    if guard.off.startswith("returns ") or not is_public:
        return False
    if guard.path in DECLARING or OUTSIDE & {*rooms}:
        return True
    return ("services" in rooms and name in _used_outside()) or _is_of_a_port(guard)


@cache
def _used_outside() -> frozenset[str]:
    """Names that pages, endpoints, commands, jobs and workers use."""
    files = [file for app in ("agentops", "gates", "loops") for file in (ROOT / app).rglob("*.py")]
    above = [ast.parse(file.read_text()) for file in files if USERS & {*file.relative_to(ROOT).parts}]
    nodes = [node for tree in above for node in ast.walk(tree)]
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )


def _is_of_a_port(guard: Guard) -> bool:
    owner = _owner(guard)
    return inspect.isclass(owner) and any(
        guard.name in methods and all(hasattr(owner, method) for method in methods) for methods in _ports()
    )


@cache
def _ports() -> tuple[frozenset[str], ...]:
    """The methods of each."""
    found = [each for each in get_type_hints(Ports).values() if getattr(each, "_is_protocol", False)]
    return tuple(frozenset(name for name in vars(port) if not name.startswith("_")) for port in found)


def _owner(guard: Guard) -> object:
    """The class or the module that holds it."""
    return find(guard.path.rpartition(".")[0])


def asking(guard: Guard) -> list[str]:
    """Those of its tests that ask what is off, or hand it on, whatever they call it; none where it is a door."""
    if plain(find(guard.path)) is None or is_door(guard):
        return []
    return [test for test in guard.tests if _asks(guard, test)]


def _asks(guard: Guard, test: str) -> bool:
    file, _, names = test.partition("[")[0].partition("::")
    off, is_method = plain(find(guard.path)), inspect.isclass(_owner(guard))
    for node in (node for part in _parts(file, names) for node in ast.walk(part)):
        if isinstance(node, ast.Attribute) and node.attr == guard.name and is_method:
            return True
        if isinstance(node, ast.Attribute | ast.Name) and _meant(file, node) is off:
            return True
    return False


def _parts(file: str, names: str) -> Iterator[ast.AST]:
    """The test, and everything at the top of its file that it names: helpers, fixtures, tables."""
    at_top, todo, seen = _at_top(file), _tests(file, names), set[ast.AST]()
    while todo:
        part = todo.pop()
        if part not in seen:
            seen.add(part)
            yield part
            named = {getattr(node, "id", getattr(node, "arg", None)) for node in ast.walk(part)}
            todo += [at_top[name] for name in named & at_top.keys()]


def _tests(file: str, names: str) -> list[ast.AST]:
    """What ``file::names`` stands for. A method goes without the other tests of its class."""
    first, _, method = names.partition("::")
    if not first:
        return [part for name, part in _at_top(file).items() if name.lower().startswith("test")]
    part = _at_top(file)[first]
    if not method:
        return [part]
    return [each for each in ast.walk(part) if isinstance(each, Named) and each.name == method]


@cache
def _at_top(file: str) -> dict[str, ast.AST]:
    """What the file defines and assigns, by name."""
    found: dict[str, ast.AST] = {}
    for part in _tree(file).body:
        if isinstance(part, Named):
            found[part.name] = part
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            found |= {name.id: part for name in names}
    return found


def _meant(file: str, node: ast.expr) -> object:
    """The function of the product that a name or an attribute is, None for anything else."""
    rest = list[str]()
    while isinstance(node, ast.Attribute):
        rest, node = [node.attr, *rest], node.value
    imported = _imports(file).get(node.id, "") if isinstance(node, ast.Name) else ""
    return _function(".".join([imported, *rest])) if imported else None


@cache
def _function(path: str) -> object:
    try:
        return plain(find(path))
    except (Stale, NotRegistered):  # a task, where a test before this one made an app of its own
        return None


@cache
def _imports(file: str) -> dict[str, str]:
    """Names of the file for what is imported from the product, wherever in it."""
    found: dict[str, str] = {}
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.asname: each.name for each in node.names if each.asname}
    return {name: path for name, path in found.items() if path.startswith(("agentops.", "gates.", "loops."))}


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())
