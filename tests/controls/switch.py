"""Switch a guard off for a while, for everybody who uses it: whoever imported a function holds the same function, so it
is its code that changes; a constant is replaced in every module that holds it. What keeps a command without namespaces
is a process of its own, and switches its guards off itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import reduce
from types import CodeType, FunctionType
from typing import Any

from tests.controls.guards import ROOT, Guard
from tests.controls.mutations import Unfit, mutated
from tests.controls.sql_mutations import mutated_sql


class Stale(Exception):
    """The table names something that is not there any more."""


KEEPERS = "loops.tools.sandbox.confined."
"""Where the guards of such a process are."""

TOLD = "AGENTOPS_TESTS_OFF"
"""Names the guard that is off in the environment of processes that tests start."""
_held = ExitStack()
_TESTS = f"{ROOT / 'tests'}/"
asked = list[str]()
"""Tests, and what belongs to them, that called the very function that is off."""


@contextmanager
def off(guard: Guard) -> Iterator[None]:
    """Without the guard while this lasts. Raises Stale."""
    asked.clear()
    with off_here(guard), _off_in_keepers(guard) if guard.path.startswith(KEEPERS) else nullcontext():
        os.environ[TOLD] = repr(guard)
        try:
            yield
        finally:
            del os.environ[TOLD]


def as_told() -> None:
    """Switch off for good what is off in the process that started this one; called by processes that tests start."""
    if told := os.environ.get(TOLD):
        _held.enter_context(off(eval(told, {"Guard": Guard})))


@contextmanager
def off_here(guard: Guard) -> Iterator[None]:
    """The same in this process alone."""
    found = find(guard.path)
    function = plain(found)
    with _constant(guard, found) if function is None else _code(guard, function):
        _forget()
        try:
            yield
        finally:
            _forget()


def check(guard: Guard) -> None:
    """Raises Stale where there is no such guard, or its mutation does not fit it."""
    found = find(guard.path)
    function = plain(found)
    if function is None:
        _instead(guard, found)
    else:
        _source(guard, function)


def find(path: str) -> Any:
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
            return reduce(inspect.getattr_static, parts[length:], module)
        except ModuleNotFoundError:
            continue
        except AttributeError:
            break
    raise Stale(f"{path} is not there")


def plain(found: Any) -> FunctionType | None:
    """The plain function under a method, a property or a decorator; None for a constant."""
    plain = found.fget if isinstance(found, property) else inspect.unwrap(getattr(found, "__func__", found))
    return plain if isinstance(plain, FunctionType) else None


def _forget() -> None:
    """Let go of answers that were remembered from before."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("loops.", "gates.")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@contextmanager
def _off_in_keepers(guard: Guard) -> Iterator[None]:
    """In every one that starts while this lasts, before it does anything."""
    from loops.tools.sandbox.confined import confinement

    before = confinement._MAIN
    first = f"from tests.controls import guards, switch; held = switch.off_here(guards.{guard!r}); held.__enter__(); "
    confinement._MAIN = before.replace("main()", first.replace("{", "{{").replace("}", "}}") + "main()")
    try:
        yield
    finally:
        confinement._MAIN = before


@contextmanager
def _constant(guard: Guard, value: Any) -> Iterator[None]:
    instead = _instead(guard, value)
    holders = [module for module in list(sys.modules.values()) if vars(module).get(guard.name) is value]
    for module in holders:
        setattr(module, guard.name, instead)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, guard.name, value)


@contextmanager
def _code(guard: Guard, function: FunctionType) -> Iterator[None]:
    code, function.__code__ = function.__code__, _compiled(_source(guard, function), function)
    try:
        yield
    finally:
        function.__code__ = code


def _instead(guard: Guard, value: Any) -> Any:
    """What stands in place of the constant. Raises Stale."""
    verb, _, expression = guard.off.partition(" ")
    if verb == "is":
        home = sys.modules[guard.path.rpartition(".")[0]]
        instead = eval(expression, vars(home) | {"was": value})
        if instead == value:
            raise Stale(f"{guard.path} is that already: {expression}")
        return instead
    if not isinstance(value, str):
        raise Stale(f"{guard.path} is no function and no SQL, and can only be something else")
    with _fitting(guard):
        return mutated_sql(value, guard.off)


def _source(guard: Guard, function: FunctionType) -> str:
    """What stands in place of the function. Raises Stale."""
    with _fitting(guard):
        made = mutated(textwrap.dedent(inspect.getsource(function)), guard.off)
    return made.replace("\n", f"\n    {_NOTED}\n", 1)


_NOTED = f"__import__({__name__!r}).controls.switch.note()"


def note() -> None:
    """Called by what is off: remember a test that asks it."""
    caller = sys._getframe(2).f_code
    if caller.co_filename.startswith(_TESTS):
        asked.append(caller.co_filename.removeprefix(f"{ROOT}/"))


@contextmanager
def _fitting(guard: Guard) -> Iterator[None]:
    try:
        yield
    except Unfit as unfit:
        raise Stale(f"{guard.path}: {unfit}") from unfit


def _compiled(source: str, function: FunctionType) -> CodeType:
    """The code of ``source`` without its decorators. It closes over what ``function`` does (``super()`` needs that)."""
    held = ", ".join(function.__code__.co_freevars)
    inside = textwrap.indent(f"global {function.__name__}\n{source}", "    ")
    tree = ast.parse(f"from __future__ import annotations\ndef around({held}):\n{inside}")
    around = tree.body[1]
    assert isinstance(around, ast.FunctionDef)
    definition = around.body[1]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    names = dict(function.__globals__)
    exec(compile(tree, f"<{function.__name__} switched off>", "exec"), names)
    names["around"](*function.__code__.co_freevars)
    made: FunctionType = names[function.__name__]
    return made.__code__
