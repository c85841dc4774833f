"""A Python file in which chosen functions raise once their module is imported, edited in place (SPEC X4)."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loops.tools.canary.functions import Function, Source, docstring, parsed

_MESSAGE = "made to fail, to see whether a check notices"
_SIMPLE = (
    ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Raise, ast.Assert, ast.Import,
    ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue,
)  # fmt: skip
"""Statements that may share their line with another."""
_INDENT = re.compile(rb"[ \t\f]*")


@dataclass(frozen=True, slots=True)
class Insertion:
    """``added`` is put at this byte of the text."""

    at: int
    added: bytes


def broken(source: Source, chosen: Sequence[Function]) -> bytes | None:
    """None where what comes out would be no Python.

    Until its last statement, or the block that runs a program, the module works as written: it may call its functions
    itself. Builtins are imported on the spot because a module, or a parameter, may have their names."""
    flag = unused_name(source.text)
    builtins = '__import__("builtins")'
    thrown = f'(_ for _ in ()).throw({builtins}.RuntimeError("{_MESSAGE}"))'
    raising = f'"{flag}" in {builtins}.globals() and {thrown}'
    edits = Edits(source, source.line_starts())
    inside = [one for function in chosen for one in edits.of_function(function.node, raising.encode())]
    around = [*edits.of_programs(flag.encode()), edits.at_the_end(flag.encode())]
    text = edited(source.text, [*inside, *around])
    return source.as_written(text) if mentions(text, flag) == len(chosen) else None


def edited(text: bytes, insertions: Sequence[Insertion]) -> bytes:
    """Of two at the same place the first comes first."""
    pieces, at = [], 0
    for one in sorted(insertions, key=lambda one: one.at):
        pieces += [text[at : one.at], one.added]
        at = one.at
    return b"".join([*pieces, text[at:]])


def unused_name(text: bytes) -> str:
    """Says nothing about what it is for: the code is not to find out."""
    name, number = "", 0
    while not name or name.encode() in text:
        name = f"_{hashlib.sha256(text + b'%d' % number).hexdigest()[:16]}"
        number += 1
    return name


def mentions(text: bytes, flag: str) -> int:
    """As a value: each of them is a function that asks for the flag. -1 where it is no Python."""
    tree = parsed(text.decode())
    nodes = ast.walk(tree) if tree else ()
    return sum(isinstance(one, ast.Constant) and one.value == flag for one in nodes) if tree else -1


@dataclass(frozen=True, slots=True)
class Edits:
    source: Source
    lines: Sequence[int]

    def of_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, raising: bytes
    ) -> Iterator[Insertion]:
        if isinstance(node, ast.Lambda):
            yield Insertion(self.start(node.body), b"(%s) or (" % raising)
            yield Insertion(self.end(node.body), b")")
            return
        said, first = docstring(node), node.body[0]
        if said is not None:
            yield Insertion(self.end(said), b"; " + raising)
        elif isinstance(first, _SIMPLE):
            yield Insertion(self.start(first), raising + b"; ")
        else:
            yield self.line_before(first, raising)

    def line_before(self, statement: ast.stmt, raising: bytes) -> Insertion:
        """Nothing can stand before a compound statement on its line, its decorators included."""
        begins = [one.lineno for one in (*getattr(statement, "decorator_list", ()), statement)]
        line = self.lines[min(begins) - 1]
        indent = _INDENT.match(self.source.text, line)
        assert indent is not None
        return Insertion(line, indent[0] + raising + self.source.newline())

    def of_programs(self, flag: bytes) -> Iterator[Insertion]:
        for statement in self.source.tree.body:
            match statement:
                case ast.If(test=ast.BoolOp(ast.And(), conditions)):
                    pass
                case ast.If(test=condition):
                    conditions = [condition]
                case _:
                    continue
            for one in filter(is_program, conditions):
                yield Insertion(self.end(one), b" and (%s := True)" % flag)

    def at_the_end(self, flag: bytes) -> Insertion:
        text, newline = self.source.text, self.source.newline()
        gap = b"" if text.endswith((b"\n", b"\r")) else newline
        return Insertion(len(text), gap + flag + b" = True" + newline)

    def start(self, node: ast.stmt | ast.expr) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.stmt | ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset


def is_program(condition: ast.expr) -> bool:
    match condition:
        case ast.Compare(left=ast.Name("__name__"), ops=[ast.Eq()], comparators=[ast.Constant("__main__")]):
            return True
        case ast.Compare(left=ast.Constant("__main__"), ops=[ast.Eq()], comparators=[ast.Name("__name__")]):
            return True
    return False
