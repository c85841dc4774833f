"""The mutations of guards. They name what the code names, and are made on its syntax tree: however it is laid out and
whatever else changes in it, they find their place, find none, or find more than one, and then say so.

| mutation | what becomes of the function |
| --- | --- |
| ``returns EXPRESSION`` | it returns this whatever it is asked; ``given`` and ``named`` are its arguments |
| ``never WORDS`` | the condition is false |
| ``always WORDS`` | the condition is true |
| ``without WORDS`` | the part is dropped: an operand, argument, element, filter, link of a chain or statement |
| ``skips NAME`` | the call gives back its first argument; a statement that is the call does nothing |
| ``reads NAME as EXPRESSION`` | the name or attribute is this, everywhere or where the number says |

A constant knows ``is EXPRESSION``, in which ``was`` is its value, and one that is SQL ``never`` and ``always``.

WORDS are names, attributes, keywords or strings of the code, dotted or not (``paused``, ``state.paused``): meant is the
smallest condition, or part, that mentions all of them. A number at the end chooses among several, in the order of the
source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

Meant = TypeVar("Meant")


class Unfit(Exception):
    """The mutation finds nothing to change, or more than one thing."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Something that can be changed: the nodes that it consists of, and how ``change`` changes it."""

    nodes: frozenset[ast.AST]
    change: Callable[[], None]

    def begins(self) -> tuple[int, int]:
        """Line and column."""
        return min(
            (node.lineno, node.col_offset) for node in self.nodes if isinstance(node, ast.expr | ast.stmt | ast.keyword)
        )


def mutated(function: str, mutation: str) -> str:
    """The source of ``function``, mutated. Raises Unfit."""
    verb, _, rest = mutation.partition(" ")
    tree = ast.parse(function)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    if verb == "returns":
        return f"def {definition.name}(*given, **named):\n    return {rest}\n"
    definition.decorator_list = []
    if verb == "reads":
        _read(definition, rest, mutation)
    else:
        _the_one(_places(definition, verb), rest, mutation).change()
    return ast.unparse(ast.fix_missing_locations(tree))


def words_of(rest: str) -> tuple[list[str], int]:
    """The words of a mutation, and which of the places that mention them; 0 where there is one."""
    words = rest.split()
    return (words[:-1], int(words[-1])) if words[1:] and words[-1].isdigit() else (words, 0)


def chosen(smallest: Sequence[Meant], number: int, mutation: str) -> Meant:
    """The place of this number. Raises Unfit."""
    if number > len(smallest) or not (number or len(smallest) == 1):
        raise Unfit(f"{mutation!r} finds {len(smallest)} places")
    return smallest[max(number - 1, 0)]


def _the_one(places: Sequence[_Place], rest: str, mutation: str) -> _Place:
    words, number = words_of(rest)
    meant = [place for place in places if all(any(_is(node, word) for node in place.nodes) for word in words)]
    smallest = [one for one in meant if not any(other.nodes < one.nodes for other in meant)]
    return chosen(sorted(smallest, key=_Place.begins), number, mutation)


def _is(node: ast.AST, word: str) -> bool:
    match node:
        case ast.Name(id=name) | ast.keyword(arg=name) | ast.Constant(value=str() as name):
            return name == word
        case ast.Attribute(attr=name):
            return name == word or ("." in word and f".{ast.unparse(node)}".endswith(f".{word}"))
    return False


def _places(definition: ast.AST, verb: str) -> list[_Place]:
    """Raises Unfit."""
    if verb not in _FINDS:
        raise Unfit(f"no mutation of functions is called {verb!r}")
    return [place for node in ast.walk(definition) for place in _FINDS[verb](node)]


def _whole(*nodes: ast.AST) -> frozenset[ast.AST]:
    return frozenset(each for node in nodes for each in ast.walk(node))


def _conditions(node: ast.AST, value: bool) -> Iterator[_Place]:
    """Conditions right below ``node``: what is branched on, operands of and, or and not, comparisons, and values that
    are returned or kept."""
    for where, child in _below(node):
        if isinstance(child, ast.Compare) or (isinstance(child, ast.expr) and (type(node), where.field) in _BRANCHES):
            yield _Place(_whole(child), _put(where, _decided(child, value)))


_BRANCHES = {
    *((kind, "test") for kind in (ast.If, ast.IfExp, ast.While, ast.Assert)),
    *((kind, "value") for kind in (ast.Return, ast.Assign, ast.NamedExpr)),
    (ast.comprehension, "ifs"),
    (ast.match_case, "guard"),
    (ast.BoolOp, "values"),
    (ast.UnaryOp, "operand"),
    (ast.Lambda, "body"),
}


def _decided(condition: ast.expr, value: bool) -> ast.expr:
    """A condition that names something is still asked, since the name is used."""
    decided = ast.Constant(value)
    if not any(isinstance(node, ast.NamedExpr) for node in ast.walk(condition)):
        return decided
    return ast.Subscript(ast.Tuple([condition, decided], ast.Load()), ast.Constant(1), ast.Load())


def _parts(node: ast.AST) -> Iterator[_Place]:
    """What can be taken out of ``node``."""
    for where, child in _below(node):
        if isinstance(child, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise):
            yield _Place(_whole(child), _put(where, ast.Pass()))
        elif (type(node), where.field) in _LISTS:
            yield _Place(_whole(child), partial(_take, where.nodes, child))
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield _Place(_whole(value, *([key] if key else [])), partial(_take_pair, node, value))
    for where, child in _below(node):
        for part, rest in _halves(child) if not isinstance(node, ast.Await) else ():
            yield _Place(part, _put(where, rest))


_LISTS = {
    *((ast.Call, field) for field in ("args", "keywords")),
    *((kind, "elts") for kind in (ast.Tuple, ast.List, ast.Set)),
    *((kind, "values") for kind in (ast.BoolOp, ast.JoinedStr)),
    (ast.comprehension, "ifs"),
}


def _halves(node: ast.AST) -> Iterator[tuple[frozenset[ast.AST], ast.expr]]:
    """Parts of an expression, and what is left of it without them."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield _whole(left), right
            yield _whole(right), left
        case ast.IfExp(body=body, orelse=orelse):
            yield _whole(body), orelse
            yield _whole(orelse), body
        case ast.Subscript(value=value, slice=inside):
            yield _whole(inside), value
        case ast.Call(func=ast.Attribute(value=receiver) as link, args=args, keywords=keywords):
            yield _whole(*args, *keywords) | {node, link}, receiver


def _calls(node: ast.AST) -> Iterator[_Place]:
    """Calls right below ``node``: each is the name of what is called."""
    for where, child in _below(node):
        call = child
        while isinstance(call, ast.Expr | ast.Await):
            call = call.value
        if isinstance(call, ast.Call) and not isinstance(node, ast.Await | ast.Expr):
            first = call.args[0] if call.args else ast.Constant(None)
            yield _Place(frozenset({call.func}), _put(where, ast.Pass() if isinstance(child, ast.Expr) else first))


def _take(home: list[ast.AST], node: ast.AST) -> None:
    home.remove(node)


def _take_pair(home: ast.Dict, value: ast.expr) -> None:
    at = home.values.index(value)
    del home.keys[at], home.values[at]


@dataclass(frozen=True, slots=True)
class _Where:
    """``field`` of a node, and the place in it where that is a list."""

    home: ast.AST
    field: str
    at: int = -1

    @property
    def nodes(self) -> list[ast.AST]:
        found: list[ast.AST] = getattr(self.home, self.field)
        return found


def _below(node: ast.AST) -> Iterator[tuple[_Where, ast.AST]]:
    for field, below in ast.iter_fields(node):
        if isinstance(below, ast.AST):
            yield _Where(node, field), below
        elif isinstance(below, list):
            yield from (
                (_Where(node, field, at), child) for at, child in enumerate(below) if isinstance(child, ast.AST)
            )


def _put(where: _Where, instead: ast.AST) -> Callable[[], None]:
    if where.at < 0:
        return partial(setattr, where.home, where.field, instead)
    return partial(where.nodes.__setitem__, where.at, instead)


def _reads(node: ast.AST, name: str, instead: ast.expr) -> Iterator[_Place]:
    """Where something right below ``node`` is the value of the name."""
    for where, child in _below(node):
        if isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Load) and _is(child, name):
            yield _Place(frozenset({child}), _put(where, instead))


def _read(definition: ast.AST, rest: str, mutation: str) -> None:
    """Raises Unfit."""
    name, _, expression = rest.partition(" as ")
    (word,), number = words_of(name)
    instead = ast.parse(expression, mode="eval").body
    places = [place for node in list(ast.walk(definition)) for place in _reads(node, word, instead)]
    places.sort(key=_Place.begins)
    for place in [chosen(places, number, mutation)] if number or not places else places:
        place.change()


_FINDS: dict[str, Callable[[ast.AST], Iterator[_Place]]] = {
    "never": partial(_conditions, value=False),
    "always": partial(_conditions, value=True),
    "without": _parts,
    "skips": _calls,
}
