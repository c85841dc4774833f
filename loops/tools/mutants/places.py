"""Code of a function that runs when it is called, and that tests can be expected to notice (SPEC X4)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_QUIET = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
_LOGS = frozenset({"log", "logger", "logging", "_log", "_logger", "LOG", "LOGGER"})


def running(function: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Each node, and whether it is in a ``while`` loop, which may never end once it is changed. Not recursive: code may
    be deeply nested."""
    waiting = [(one, False) for one in reversed(list(parts(function)))]
    while waiting:
        node, in_loop = waiting.pop()
        yield node, in_loop
        in_loop = in_loop or isinstance(node, ast.While)
        waiting += [(one, in_loop) for one in reversed(list(parts(node)))]


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """What of it runs and matters: no annotations, defaults and patterns, nothing that only tells types, no logging,
    and no texts with values in them, of which Python 3.11 does not know the places."""
    match node:
        case (
            ast.FunctionDef(name=name, body=body)
            | ast.AsyncFunctionDef(name=name, body=body)
            | ast.ClassDef(name=name, body=body)
        ):
            yield from () if is_test(name) else body
        case ast.Lambda(body=expression):
            yield expression
        case ast.AnnAssign(value=value):
            yield from [value] if value else ()
        case ast.If(test=test, orelse=orelse) if tells_types(test):
            yield from orelse
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Raise() | ast.JoinedStr() | ast.pattern():
            return
        case ast.Call(func=called, args=arguments) if name_of(called) == "cast":
            yield from arguments[1:]
        case ast.Call(func=called) if is_unnoticed(called):
            return
        case _ if type(node).__name__ in ("TypeAlias", "TemplateStr"):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def is_test(qualified: str) -> bool:
    return any(part.startswith(("test_", "Test")) for part in qualified.split("."))


def tells_types(test: ast.expr) -> bool:
    return name_of(test) == "TYPE_CHECKING"


def name_of(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def is_unnoticed(called: ast.expr) -> bool:
    """Logging, and how long something sleeps."""
    logs = isinstance(called, ast.Attribute) and called.attr in _QUIET and name_of(called.value) in _LOGS
    return logs or name_of(called) == "sleep"
