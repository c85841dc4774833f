"""Tests of Python as they are written: what each checks, whether it runs, and how strictly it judges."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loops.tools.suspicion.python_names import Function, Module

STRICT, LOOSE, BARE = 3, 2, 1
"""That it is exactly this; that it is something like this; that it is there at all."""
_RANKS = {
    "assertEqual": STRICT, "assertEquals": STRICT, "assertIs": STRICT, "assertDictEqual": STRICT,
    "assertListEqual": STRICT, "assertTupleEqual": STRICT, "assertSetEqual": STRICT, "assertSequenceEqual": STRICT,
    "assertMultiLineEqual": STRICT, "assertIsNone": STRICT, "assertCountEqual": LOOSE, "assertAlmostEqual": LOOSE,
    "assertIsNotNone": BARE, "assertIsInstance": BARE,
}  # fmt: skip
_CALLS = ("assert", "check", "verify", "expect", "must_")
_BROAD = frozenset({"Exception", "BaseException", "AssertionError"})
_SKIPS = (".skip", ".skipif", ".skipIf", ".skipUnless", ".xfail", ".expectedFailure", ".skipTest", ".SkipTest")
Key = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Check:
    """``about`` and ``expected`` are the constants on its two sides: names may change, they may not."""

    about: tuple[str, ...]
    expected: tuple[str, ...]
    rank: int
    line: int

    @property
    def key(self) -> Key:
        return self.about, self.expected


@dataclass(slots=True)
class Case:
    """One test, or what tests share."""

    name: str
    line: int
    is_test: bool
    checks: list[Check] = field(default_factory=list)
    skips: list[int] = field(default_factory=list)
    truths: list[int] = field(default_factory=list)
    swallowed: list[int] = field(default_factory=list)
    parameters: frozenset[str] = frozenset()
    """The cases it is given, where it is given any."""
    mentions: frozenset[str] = frozenset()

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


def cases(tree: ast.Module) -> dict[str, Case]:
    """By full name; of two with one name the latter, which is the one that runs."""
    module, found = Module(tree), dict[str, Case]()
    found[""] = _case(
        module, "", tree, [one for one in tree.body if not isinstance(one, Function | ast.ClassDef)], False
    )
    gone = set()
    for prefix, node, collected in _functions(tree.body, "", True):
        if isinstance(node, Function):
            name = f"{prefix}{node.name}"
            is_test = collected and node.name.startswith("test")
            found[name] = _case(module, name, node, node.body, is_test)
            gone.discard(name)
        else:
            gone |= {f"{prefix}{name}" for name in _unnamed(node)}
    for name in gone & found.keys():
        found[name].is_test = False
    return found


def _functions(body: Iterable[ast.stmt], prefix: str, collected: bool) -> Iterator[tuple[str, ast.stmt, bool]]:
    """(prefix of its name, function or statement that takes a name away, is it one that runners look for)."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Delete() | ast.Assign():
                yield prefix, node, collected
            case ast.ClassDef(name=name, bases=bases, body=inner):
                runs = collected and (name.startswith("Test") or bool(bases)) and not _says_no_test(inner)
                yield from _functions(inner, f"{prefix}{name}.", runs)
            case ast.If(test=test, body=inner, orelse=others):
                yield from _functions([] if is_false(test) else inner, prefix, collected)
                yield from _functions(others, prefix, collected)
            case ast.Try(body=inner) | ast.With(body=inner):
                yield from _functions(inner, prefix, collected)


def _says_no_test(body: Iterable[ast.stmt]) -> bool:
    return any(isinstance(one, ast.Assign) and "__test__" in _unnamed(one) for one in body)


def _unnamed(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Delete | ast.Assign) else []
    return {one.id for one in targets if isinstance(one, ast.Name)}


def _case(module: Module, name: str, node: ast.AST, body: list[ast.stmt], is_test: bool) -> Case:
    case = Case(name, int(getattr(node, "lineno", 0)), is_test)
    decorators = getattr(node, "decorator_list", [])
    for one in decorators:
        if _skips(module, one):
            case.skips.append(one.lineno)
        case.parameters |= _parameters(one)
    names = set()
    for one in reached(body):
        _look(module, case, one)
        if isinstance(one, ast.Name):
            names.add(one.id)
        elif isinstance(one, ast.Attribute):
            names.add(one.attr)
    case.mentions = frozenset(names)
    return case


def reached(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """What may run: nothing behind a plain return, nothing below ``if False``."""
    stack: list[ast.AST] = list(_until_return(body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.If | ast.While) and is_false(node.test):
            stack += node.orelse
            continue
        if isinstance(node, ast.If | ast.With | ast.For | ast.While | ast.Try):
            below = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
            inner = [*_until_return(node.body), *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            stack += [*below, *inner]
            continue
        stack += list(ast.iter_child_nodes(node))


def _until_return(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for one in body:
        yield one
        if isinstance(one, ast.Return | ast.Raise):
            return


def _look(module: Module, case: Case, node: ast.AST) -> None:
    """Whether a line is a check, a skip, or keeps a failure from being one."""
    match node:
        case ast.Assert(test=test):
            case.checks.append(_check(test, node.lineno))
            case.truths += [node.lineno] if is_true(test) else []
        case ast.Call(func=func):
            _look_at_call(module, case, node, _called(func))
        case ast.Raise(exc=ast.Name(id="SkipTest") | ast.Attribute(attr="SkipTest")):
            case.skips.append(node.lineno)
        case ast.Try(body=body, handlers=handlers) if any(map(_is_check, _below(body))):
            case.swallowed += [node.lineno] if any(map(swallows, handlers)) else []
        case ast.Assign() if _marks_away(module, node):
            case.skips.append(node.lineno)


def _look_at_call(module: Module, case: Case, node: ast.Call, name: str) -> None:
    if name.startswith(_CALLS) or name == "raises":
        case.checks.append(_of_call(name, node))
        args = node.args
        true = name in ("assertTrue", "assert_") and bool(args) and is_true(args[0])
        same = name == "assertEqual" and len(args) > 1 and _same(args[0], args[1])
        case.truths += [node.lineno] if true or same else []
    elif _skips(module, node.func):
        case.skips.append(node.lineno)
    elif name == "suppress" and any(_called(one) in _BROAD for one in node.args):
        case.swallowed.append(node.lineno)


def _marks_away(module: Module, node: ast.Assign) -> bool:
    """``pytestmark = pytest.mark.skip``, ``collect_ignore = [...]``."""
    names = _unnamed(node)
    ignores = any(name.startswith("collect_ignore") for name in names)
    return ignores or ("pytestmark" in names and any(_skips(module, one) for one in ast.walk(node.value)))


def _below(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    for one in body:
        yield from ast.walk(one)


def _is_check(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _called(node.func).startswith("assert"))


def swallows(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(one is None or _called(one) in _BROAD for one in caught)
    fails = any(
        isinstance(one, ast.Raise | ast.Assert) or (isinstance(one, ast.Call) and _called(one.func) == "fail")
        for one in _below(handler.body)
    )
    return broad and not fails


def _called(func: ast.AST) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _skips(module: Module, node: ast.AST) -> bool:
    """A mark, a decorator or a call by which a test does not run, or may fail."""
    name = module.dotted(node.func if isinstance(node, ast.Call) else node)
    known = name.partition(".")[0] in ("pytest", "unittest", "self", "mark")
    return (known and name.endswith(_SKIPS)) or (known and name.endswith("importorskip"))


def _parameters(decorator: ast.AST) -> frozenset[str]:
    match decorator:
        case ast.Call(
            func=ast.Attribute(attr="parametrize"), args=[_, ast.List(elts=given) | ast.Tuple(elts=given), *_]
        ):
            return frozenset(ast.unparse(one) for one in given)
    return frozenset()


def _check(test: ast.expr, line: int) -> Check:
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            about, expected = (right, left) if isinstance(left, ast.Constant) else (left, right)
            rank = STRICT if isinstance(op, ast.Eq | ast.Is) else LOOSE
            if isinstance(op, ast.IsNot) and isinstance(right, ast.Constant):
                rank = BARE
            if any(isinstance(one, ast.Call) and _called(one.func) == "approx" for one in ast.walk(right)):
                rank = LOOSE
            return Check(constants(about), constants(expected), rank, line)
        case ast.Call(func=ast.Name("isinstance"), args=[value, _]):
            return Check(constants(value), (), BARE, line)
        case ast.UnaryOp(op=ast.Not(), operand=value):
            return Check(constants(value), ("False",), LOOSE, line)
    return Check(constants(test), (), BARE, line)


def _of_call(name: str, node: ast.Call) -> Check:
    if name == "raises" or name.startswith("assertRaises"):
        wanted = ast.unparse(node.args[0]) if node.args else ""
        return Check((), (wanted,), BARE if wanted in _BROAD else STRICT, node.lineno)
    if name in ("assertTrue", "assertFalse", "assert_") and node.args:
        return _check(node.args[0], node.lineno)
    about = constants(node.args[0]) if node.args else ()
    expected = constants(node.args[1]) if len(node.args) > 1 else ()
    return Check(about, expected, _RANKS.get(name, LOOSE), node.lineno)


def constants(node: ast.AST) -> tuple[str, ...]:
    """With their sign."""
    negated = {one.operand for one in ast.walk(node) if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub)}
    values = [one for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return tuple(f"{'-' if one in negated else ''}{one.value!r}" for one in values)


def is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _same(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def is_true(node: ast.AST) -> bool:
    """Whatever the code does?"""
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=elts) if elts:
            return True
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return is_false(inner)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(is_true, values))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(is_true, values))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return _same(left, right)
        case ast.Compare(left=ast.Call(func=ast.Name("len")), ops=[ast.GtE()], comparators=[ast.Constant(0)]):
            return True
        case ast.Call(func=ast.Name("isinstance"), args=[_, ast.Name("object")]):
            return True
    return False
