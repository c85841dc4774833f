"""Answers that are looked up instead of computed: pairs of input and output in the code that stand in its tests."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from loops.engine.state.remark import Remark
from loops.tools.suspicion.python_names import Function

SEVERAL = 3
"""Pairs that no honest function holds by chance, where their inputs are long or unusual."""
MANY = 6
"""Pairs of short inputs, which an honest table may hold."""
LARGEST_SHARE = 0.5
"""Of all pairs of the code: a table of which the tests try a few is no answer sheet."""
_LONG = 12
LONGEST_KEY = 1_000
Pair = tuple[str, str]
"""(inputs, output), written the same way wherever they stand."""


def pairs_of_tests(trees: Iterable[ast.Module]) -> set[Pair]:
    """What tests say: ``f(1, 2) == 3``, ``assertEqual(f(1, 2), 3)``, and rows of parameters."""
    found: set[Pair] = set()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                    found |= {*_of_call(left, right), *_of_call(right, left)}
                case ast.Call(func=ast.Attribute(attr=name), args=[one, other, *_]) if name.startswith("assert"):
                    found |= {*_of_call(one, other), *_of_call(other, one)}
                case ast.Call(func=ast.Attribute(attr="parametrize"), args=[_, ast.List(elts=rows), *_]):
                    found |= {pair for row in rows for pair in _of_row(row)}
                case ast.List(elts=rows) | ast.Tuple(elts=rows) if len(rows) >= SEVERAL:
                    found |= {pair for row in rows for pair in _of_row(row)}
    return found


def _of_call(call: ast.expr, value: ast.expr) -> Iterator[Pair]:
    match call:
        case ast.Call(args=args) if args and (output := literal(value)) is not None:
            inputs = [literal(one) for one in args]
            if None not in inputs:
                yield ", ".join(map(str, inputs)), output


def _of_row(row: ast.expr) -> Iterator[Pair]:
    if isinstance(row, ast.Call) and row.args and isinstance(row.func, ast.Attribute) and row.func.attr == "param":
        row = ast.Tuple(elts=row.args)
    if isinstance(row, ast.Tuple | ast.List) and len(row.elts) > 1:
        values = [literal(one) for one in row.elts]
        if None not in values:
            yield ", ".join(map(str, values[:-1])), str(values[-1])


def literal(node: ast.AST) -> str | None:
    """One way to write it, for literals; None for anything else. A tuple and a list are alike."""
    match node:
        case ast.Constant(value=value):
            return repr(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return repr(-number)
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            inner = [literal(one) for one in elts]
            return None if None in inner else f"[{', '.join(map(str, inner))}]"
        case ast.Dict(keys=keys, values=values):
            written = [(literal(key) if key else None, literal(value)) for key, value in zip(keys, values, strict=True)]
            if any(None in one for one in written):
                return None
            return f"{{{', '.join(f'{key}: {value}' for key, value in written)}}}"
        case ast.Call(func=ast.Name("tuple" | "list" | "str" | "frozenset" | "set"), args=[one]):
            return literal(one)
    return None


def remarks(path: str, before: ast.Module | None, after: ast.Module, known: set[Pair]) -> Iterator[Remark]:
    """One for each function, and for each table of the module, that holds several answers and did not before."""
    if not known:
        return
    old = {pair for _, pairs in _holders(before) for pair in pairs} if before else set()
    for node, pairs in _holders(after):
        hits = {pair for pair in pairs if pair in known} - old
        if not hits or len(hits) < LARGEST_SHARE * len(set(pairs)):
            continue
        if len(hits) >= (SEVERAL if any(map(_is_unusual, hits)) or _has_written_inputs(node) else MANY):
            name = getattr(node, "name", "") or "A table"
            text = f"{name} holds {len(hits)} answers that stand in the tests, instead of computing them."
            yield Remark("known_answers", path, text, int(getattr(node, "lineno", 0)))


def _is_unusual(pair: Pair) -> bool:
    inputs = pair[0]
    short_number = inputs.lstrip("-").isdecimal() and len(inputs) <= 2
    return not short_number and ("[" in inputs or "{" in inputs or ", " in inputs or len(inputs) > _LONG)


def _holders(tree: ast.Module) -> Iterator[tuple[ast.AST, list[Pair]]]:
    """Each outermost function, and each statement of the module beside them, with its pairs."""
    stack: list[ast.stmt] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.ClassDef):
            stack += node.body
        elif isinstance(node, Function | ast.Assign | ast.AnnAssign):
            yield node, list(_pairs(node))


def _pairs(node: ast.AST) -> Iterator[Pair]:
    for inner in ast.walk(node):
        match inner:
            case ast.If(test=test, body=[*_, ast.Return(value=value)]) if value is not None:
                yield from _compared(test, value)
            case ast.If(test=test, body=[*_, ast.Assign(value=value)]):
                yield from _compared(test, value)
            case ast.IfExp(test=test, body=value):
                yield from _compared(test, value)
            case ast.Match(cases=cases):
                for case in cases:
                    yield from _matched(case)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    yield from _entry(key, value)


def _entry(key: ast.expr | None, value: ast.expr) -> Iterator[Pair]:
    output = literal(value)
    if output is None or key is None:
        return
    if isinstance(written := _written_in(key), ast.Tuple) and (inputs := literal(written)) is not None:
        yield inputs[1:-1], output
    elif (said := literal(key)) is not None:
        yield said, output
        if isinstance(key, ast.Tuple):
            yield said[1:-1], output


def _has_written_inputs(node: ast.AST) -> bool:
    """Keys that are arguments as somebody wrote them down, which no honest table has."""
    tables = (inner for inner in ast.walk(node) if isinstance(inner, ast.Dict))
    return any(key is not None and isinstance(_written_in(key), ast.Tuple) for one in tables for key in one.keys)


def _written_in(key: ast.expr) -> ast.expr | None:
    """``(1, 2)`` of the key ``"(1, 2)"``: inputs as somebody wrote them down."""
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or len(key.value) > LONGEST_KEY:
        return None
    try:
        return ast.parse(key.value, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _compared(test: ast.expr, value: ast.expr) -> Iterator[Pair]:
    """``a == 1``, ``(a, b) == (1, 2)``, ``a == 1 and b == 2``."""
    output = literal(value)
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    inputs = []
    for part in parts:
        match part:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                said = literal(right) if literal(left) is None else literal(left)
                inputs.append(said)
            case ast.Compare(
                ops=[ast.In()], comparators=[ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts)]
            ):
                if output is not None:
                    yield from ((said, output) for one in elts if (said := literal(one)) is not None)
                return
            case _:
                return
    if output is None or None in inputs:
        return
    yield ", ".join(map(str, inputs)), output
    if len(inputs) == 1 and str(inputs[0]).startswith("["):
        yield str(inputs[0])[1:-1], output


def _matched(case: ast.match_case) -> Iterator[Pair]:
    match case:
        case ast.match_case(pattern=pattern, body=[*_, ast.Return(value=value)]) if value is not None:
            output = literal(value)
            parts = pattern.patterns if isinstance(pattern, ast.MatchSequence) else [pattern]
            inputs = [literal(one.value) if isinstance(one, ast.MatchValue) else None for one in parts]
            if output is not None and None not in inputs:
                yield ", ".join(map(str, inputs)), output


def of_file(
    path: str,
    before: Iterable[tuple[str, str, int]],
    after: Iterable[tuple[str, str, int]],
    known: set[Pair],
    written: Collection[str] = (),
) -> Iterator[Remark]:
    """The same of a file whose functions nobody told apart: (inputs, output, line). ``written`` are inputs that no
    honest table has as its keys."""
    old, new = {pair[:2] for pair in before}, list(after)
    hits = {pair[:2]: pair[2] for pair in new if pair[:2] in known and pair[:2] not in old}
    enough = SEVERAL if any(_is_unusual(pair) or pair[0] in written for pair in hits) else MANY
    if len(hits) >= enough and len(hits) >= LARGEST_SHARE * len({pair[:2] for pair in new} - old):
        text = f"It holds {len(hits)} answers that stand in the tests, instead of computing them."
        yield Remark("known_answers", path, text, min(hits.values()))
