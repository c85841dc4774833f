"""Mutation operators: the small changes that code invites, each as an edit of its text (SPEC X4).

Offutt's sufficient set, with the replacements of mutmut and Cosmic Ray: relational (ROR), arithmetic (AOR) and logical
operators (LCR), negation (UOI, UOD), constants (CRP) and returned values."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from loops.tools.canary.insertions import Edits
from loops.tools.mutants.places import tells_types


class Kind(StrEnum):
    """In the order in which they are preferred."""

    COMPARISON = "comparison"
    BOOLEAN = "boolean"
    ARITHMETIC = "arithmetic"
    CONDITION = "condition"
    RETURN = "return"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Edit:
    """``new`` stands for the bytes of the text from ``start`` to ``end``."""

    kind: Kind
    start: int
    end: int
    new: bytes


_COMPARISONS: Mapping[type[ast.cmpop], tuple[bytes, bytes]] = {
    ast.Lt: (b"<", b"<="), ast.LtE: (b"<=", b"<"), ast.Gt: (b">", b">="), ast.GtE: (b">=", b">"),
    ast.Eq: (b"==", b"!="), ast.NotEq: (b"!=", b"=="), ast.Is: (b"is", b"is not"), ast.IsNot: (b"is not", b"is"),
    ast.In: (b"in", b"not in"), ast.NotIn: (b"not in", b"in"),
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.operator], tuple[bytes, bytes]] = {
    ast.Add: (b"+", b"-"), ast.Sub: (b"-", b"+"), ast.Mult: (b"*", b"//"), ast.Div: (b"/", b"*"),
    ast.FloorDiv: (b"//", b"*"), ast.Mod: (b"%", b"*"), ast.Pow: (b"**", b"*"),
}  # fmt: skip
_SIGN = re.compile(rb"#[^\r\n]*|(is\s+not\b|not\s+in\b|is\b|in\b|and\b|or\b|[-+*/%<>=!]+)")
"""What stands between two operands, which else are parentheses, and comments."""
_ADDITION, _UNIT = (ast.Add, ast.Sub), (ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)
_NEUTRAL = {**dict.fromkeys(_ADDITION, 0), **dict.fromkeys(_UNIT, 1)}
"""What on the right of an operator changes nothing, nor would it with another operator."""
_NEGATED_ALREADY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_NOT_NUMBERS = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_BINDS_STRONGER = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Compare, ast.Constant)
_NOT = re.compile(rb"not\b[ \t\f]*")
_LONGEST_NUMBER = 20
_LONGEST = 2_000
"""Bytes of a condition or a returned value that is replaced as a whole."""


@dataclass(frozen=True, slots=True)
class Operators:
    place: Edits

    def of(self, node: ast.AST) -> Iterator[Edit]:
        yield from self.signs(node)
        yield from self.values(node)
        yield from self.conditions(node)

    def signs(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=several) if not asks_for_the_platform(node):
                for (one, other), how in zip(pairwise([left, *several]), ops, strict=True):
                    yield from self.sign(Kind.COMPARISON, one, other, *_COMPARISONS[type(how)])
            case ast.BoolOp(op=op, values=values):
                replaced = (b"and", b"or") if isinstance(op, ast.And) else (b"or", b"and")
                for one, other in pairwise(values):
                    yield from self.sign(Kind.BOOLEAN, one, other, *replaced)
            case ast.BinOp(left=left, op=op, right=right) if is_arithmetic(left, op, right):
                yield from self.sign(Kind.ARITHMETIC, left, right, *_ARITHMETIC[type(op)])
            case ast.AugAssign(target=left, op=op, value=right) if is_arithmetic(left, op, right):
                old, new = _ARITHMETIC[type(op)]
                yield from self.sign(Kind.ARITHMETIC, left, right, old + b"=", new + b"=")

    def sign(self, kind: Kind, left: ast.expr, right: ast.expr, old: bytes, new: bytes) -> Iterator[Edit]:
        """It stands between its operands, with parentheses and comments."""
        begin, end = self.place.end(left), self.place.start(right)
        found = next((one for one in _SIGN.finditer(self.place.source.text[begin:end]) if one[1] is not None), None)
        if found and b" ".join(found[1].split()) == old:
            yield Edit(kind, begin + found.start(), begin + found.end(), new)

    def values(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Constant(value=bool(value)):
                yield self.edit(Kind.BOOLEAN, node, b"False" if value else b"True")
            case ast.Constant(value=int(value)) if self.length(node) <= _LONGEST_NUMBER:
                yield self.edit(Kind.NUMBER, node, b"%d" % (value + 1))
            case ast.Constant(value=float(value)) if math.isfinite(value) and value + 1 != value:
                yield self.edit(Kind.NUMBER, node, repr(value + 1).encode())
            case ast.Return(value=ast.expr() as value) if says_something(value) and self.length(node) <= _LONGEST:
                yield self.edit(Kind.RETURN, node, b"return None")

    def conditions(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.UnaryOp(op=ast.Not()):
                yield self.edit(Kind.BOOLEAN, node, _NOT.sub(b"", self.text(node), count=1))
            case ast.If(test=test) | ast.IfExp(test=test):
                yield from self.negated(test)
            case ast.comprehension(ifs=several):
                for test in several:
                    yield from self.negated(test)

    def negated(self, test: ast.expr) -> Iterator[Edit]:
        """Not where another operator does the same."""
        match test:
            case ast.UnaryOp(op=ast.Not()) | ast.Constant():
                return
            case _ if tells_types(test):
                return
            case ast.Compare(ops=[op]) if isinstance(op, _NEGATED_ALREADY) or asks_for_the_platform(test):
                return
        if self.length(test) <= _LONGEST:
            old = self.text(test)
            new = b"not " + old if isinstance(test, _BINDS_STRONGER) else b"not (" + old + b")"
            at = self.place.start(test)
            gap = b" " if self.place.source.text[at - 1 : at].isalnum() else b""
            yield self.edit(Kind.CONDITION, test, gap + new)

    def length(self, node: ast.stmt | ast.expr) -> int:
        return self.place.end(node) - self.place.start(node)

    def text(self, node: ast.expr) -> bytes:
        return self.place.source.text[self.place.start(node) : self.place.end(node)]

    def edit(self, kind: Kind, node: ast.stmt | ast.expr, new: bytes) -> Edit:
        return Edit(kind, self.place.start(node), self.place.end(node), new)


def is_arithmetic(left: ast.expr, op: ast.operator, right: ast.expr) -> bool:
    """As far as can be seen: of texts and lists another operator would not even run, which no test is worth."""
    if type(op) not in _ARITHMETIC or any(is_no_number(one) for one in (left, right)):
        return False
    return not (isinstance(right, ast.Constant) and right.value == _NEUTRAL.get(type(op)))


def is_no_number(node: ast.expr) -> bool:
    return isinstance(node, _NOT_NUMBERS) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def asks_for_the_platform(node: ast.Compare) -> bool:
    """No test on one machine can tell."""
    names = {getattr(one, "attr", getattr(one, "id", "")) for one in (node.left, *node.comparators)}
    return bool(names & {"version_info", "platform", "hexversion"})


def says_something(value: ast.expr) -> bool:
    """``None`` is returned already; ``False`` is mostly read as the same, and ``True`` is replaced as a constant."""
    return not (isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, bool)))
