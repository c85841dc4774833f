"""Functions of a Python file by their qualified names, each with its code as far as it matters, and names tests use."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

LARGEST = 1_000_000
"""Bytes of a file that is read."""
BOM = b"\xef\xbb\xbf"
Definition = ast.FunctionDef | ast.AsyncFunctionDef
_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_ENCODINGS = {
    "utf-8": "utf-8", "utf8": "utf-8", "ascii": "ascii", "us-ascii": "ascii", "latin-1": "latin-1",
    "latin1": "latin-1", "iso-8859-1": "latin-1", "cp1252": "cp1252", "windows-1252": "cp1252",
}  # fmt: skip
"""In all of them ASCII is ASCII. Others, which could hide code, are not read."""
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_RUNNERS = frozenset({"unittest", "pytest", "_pytest", "doctest", "pluggy"})
_NOT_TESTED = frozenset({"self", "cls", "pytest", "unittest", "mock"})


@dataclass(frozen=True, slots=True)
class Source:
    """``text`` is UTF-8 without a byte order mark; positions of ``tree`` count its bytes."""

    text: bytes
    tree: ast.Module
    encoding: str = "utf-8"
    mark: bytes = b""

    def line_starts(self) -> list[int]:
        """As Python counts lines: a form feed ends none."""
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    def newline(self) -> bytes:
        found = _LINE_END.search(self.text)
        return found[0] if found else b"\n"

    def as_written(self, text: bytes) -> bytes:
        return self.mark + text.decode().encode(self.encoding)


@dataclass(frozen=True, slots=True)
class Function:
    """The outermost one: functions within belong to it. ``code`` is equal where only places and docstrings differ."""

    name: str
    node: Definition | ast.Lambda
    code: Hashable


def read(data: bytes | None) -> Source | None:
    """None where it is no Python that can be read here."""
    if data is None or len(data) > LARGEST:
        return None
    cookies = map(_COOKIE.match, _LINE_END.split(data.removeprefix(BOM), maxsplit=2)[:2])
    name = next((found[1].decode() for found in cookies if found), "utf-8").lower().replace("_", "-")
    encoding = "utf-8" if name.startswith("utf-8-") else _ENCODINGS.get(name)
    if encoding is None:
        return None
    try:
        text = data.removeprefix(BOM).decode(encoding)
    except UnicodeDecodeError:
        return None
    tree = parsed(text)
    return Source(text.encode(), tree, encoding, BOM if data.startswith(BOM) else b"") if tree else None


def parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(tree: ast.Module) -> Iterator[Function]:
    """In the order of the file, under conditions and in classes too. Not those that only tell types."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        scope, node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not any(is_overload(one) for one in node.decorator_list):
                    yield Function(scope + node.name, node, code(node))
                continue
            case ast.Assign(targets=targets, value=ast.Lambda() as value):
                names = [one.id for one in targets if isinstance(one, ast.Name)]
                yield from (Function(scope + name, value, code(value)) for name in names[:1])
            case ast.AnnAssign(target=ast.Name(name), value=ast.Lambda() as value):
                yield Function(scope + name, value, code(value))
            case ast.ClassDef():
                scope = f"{scope}{node.name}."
        within = [one for block in _BLOCKS for one in getattr(node, block, ())]
        waiting += [(scope, one) for one in reversed(within)]


def is_overload(decorator: ast.expr) -> bool:
    return "overload" in (getattr(decorator, "id", ""), getattr(decorator, "attr", ""))


def code(node: ast.AST) -> Hashable:
    """Equal for nodes that differ in positions and docstrings only. Not recursive: code may be deeply nested."""
    flat: list[Hashable] = []
    waiting: list[object] = [node]
    while waiting:
        match waiting.pop():
            case ast.AST() as one:
                flat.append(type(one).__name__)
                waiting += [without_docstring(one, name) for name in reversed(one._fields) if name != "kind"]
            case list(several):
                flat.append(len(several))
                waiting += reversed(several)
            case Hashable() as value:
                flat.append((type(value).__name__, value))
    return tuple(flat)


def without_docstring(node: ast.AST, field: str) -> object:
    value = getattr(node, field, None)
    return value[1:] if field == "body" and isinstance(value, list) and docstring(node) else value


def docstring(node: ast.AST) -> ast.Expr | None:
    match node:
        case (
            ast.FunctionDef(body=[ast.Expr(ast.Constant(str())) as first, *_])
            | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())) as first, *_])
            | ast.ClassDef(body=[ast.Expr(ast.Constant(str())) as first, *_])
        ):
            return first
    return None


def names_used(tree: ast.Module) -> frozenset[str]:
    """What a test asks of the code under test: not what it has from its runner, itself or the language, which a hook
    may be named like."""
    used: set[str] = set()
    foreign = set(dir(builtins))
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                used |= {part for one in names for part in one.name.split(".")}
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] in _RUNNERS:
                foreign |= {name for one in names for name in (one.name, one.asname or one.name)}
            case ast.ImportFrom(names=names):
                used |= {one.name for one in names}
            case ast.Attribute(value=ast.Name(owner)) if owner in _NOT_TESTED:
                continue
            case ast.Attribute(attr=name):
                used.add(name)
    plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(used | (plain - foreign))
