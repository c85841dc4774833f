"""Signs in Python code: it ends the process, changes its runner or interpreter, or behaves otherwise under test."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from loops.engine.state.remark import Level
from loops.tools.suspicion.changes import Change
from loops.tools.suspicion.python_names import FUNCTION, IMPORT, MAIN, Module, Place, docstrings
from loops.tools.suspicion.signs import Sign

HARD_ENDS = frozenset({
    "os._exit", "os.abort", "os.execv", "os.execve", "os.execvp", "os.execvpe", "os.execl", "os.execlp",
    "signal.raise_signal", "pytest.exit", "_pytest.outcomes.exit", "posix._exit", "ctypes.pythonapi.Py_Exit",
})  # fmt: skip
SOFT_ENDS = frozenset({"sys.exit", "exit", "quit", "SystemExit"})
AT_THE_END = ("atexit.register", "faulthandler.", "signal.signal", "signal.alarm", "signal.setitimer", "os.kill")
LOOKS_AROUND = ("gc.get_objects", "gc.get_referrers", "sys.settrace", "sys.setprofile", "threading.settrace",
                "threading.setprofile", "sys.monitoring.", "sys.addaudithook")  # fmt: skip
FRAMES = frozenset({"inspect.stack", "inspect.currentframe", "sys._getframe", "inspect.getouterframes"})
_OF_FRAMES = frozenset({"f_back", "f_locals", "f_globals", "f_code"})
_SEEN_THERE = frozenset({*FRAMES, "sys.modules", "sys.argv", "sys.orig_argv"})
"""What tells who runs the code."""
RUNNERS = frozenset({"pytest", "_pytest", "unittest", "doctest", "pluggy", "nose", "nose2"})
VARIABLES = frozenset({
    "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "NODE_TEST_CONTEXT", "JEST_WORKER_ID",
    "VITEST_WORKER_ID", "VITEST_POOL_ID", "AGENTOPS_TEST_REPORT",
})  # fmt: skip
PATCHED = frozenset({
    "builtins", "__builtins__", "time", "random", "socket", "urllib", "datetime", "os", "sys", "math", "json",
    "unittest", "pytest", "_pytest", "subprocess", "threading", "decimal", "operator", "inspect", "io", "statistics",
    "importlib", "secrets", "hashlib", "collections", "itertools", "functools", "pluggy", "doctest",
})  # fmt: skip
_ALLOWED = ("sys.stdout", "sys.stderr", "sys.stdin", "sys.path", "sys.argv", "sys.excepthook", "sys.tracebacklimit",
            "sys.dont_write_bytecode", "sys.displayhook", "os.environ", "threading.excepthook")  # fmt: skip
_COMPARISONS = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"})
_SOURCES = frozenset({"eval", "exec", "compile"})
_DEEPEST = 3


def signs(change: Change, tree: ast.Module, depth: int = 0) -> Iterator[Sign]:
    """Of a library all of them; of a test file what ends, or cheats, the run it is a part of."""
    module = Module(tree)
    said = docstrings(tree)
    looks = bool(module.mentioned & _SEEN_THERE)
    for place in module.places():
        yield from ends_process(change, module, place)
        yield from names_variable(place, said)
        if not change.is_test:
            yield from tampers(module, place)
            yield from is_under_test(module, place, looks)
            yield from imports_runner(change, place)
        yield from hidden_source(change, place, depth)


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def ends_process(change: Change, module: Module, place: Place) -> Iterator[Sign]:
    node = place.node
    if isinstance(node, ast.Attribute | ast.Name | ast.Call) and not place.is_inner:
        name = module.dotted(node)
        if name in HARD_ENDS and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            text = f"{name} ends the process at once: whatever checks have yet to fail does not run."
            yield Sign("process_end", f"end {name}", text, _line(node))
        elif name.startswith(AT_THE_END) and not change.is_test:
            level = Level.SUSPICIOUS if name == "os.kill" and place.runs == IMPORT else Level.TO_KNOW
            yield Sign("process_end", f"end {name}", f"{name} changes how the process ends.", _line(node), level)
    match node:
        case ast.Call(func=func) if module.dotted(func) in SOFT_ENDS:
            name = module.dotted(func)
            if "." in name or name == "SystemExit" or name not in module.own_names:
                yield from _soft_end(change, place, name, node.args)
        case ast.Raise(exc=ast.Name("SystemExit")):
            yield from _soft_end(change, place, "SystemExit", [])


def _soft_end(change: Change, place: Place, name: str, args: list[ast.expr]) -> Iterator[Sign]:
    if place.runs == MAIN or (change.is_test and place.runs == FUNCTION):
        return
    fails = (
        bool(args)
        and isinstance(args[0], ast.Constant | ast.JoinedStr)
        and getattr(args[0], "value", 1)
        not in (
            None,
            0,
        )
    )
    when = "when it is imported" if place.runs == IMPORT else "inside of a function"
    harmless = fails or (place.runs == FUNCTION and (place.is_entry or change.is_apart))
    level = Level.TO_KNOW if harmless else Level.SUSPICIOUS
    text = f"{name} ends the program {when}: checks after it do not run."
    yield Sign("process_end", f"end {name} {place.runs}", text, _line(place.node), level)


def tampers(module: Module, place: Place) -> Iterator[Sign]:
    node = place.node
    if isinstance(node, ast.Attribute | ast.Name | ast.Call) and not place.is_inner:
        name = module.dotted(node)
        if name.startswith(LOOKS_AROUND):
            text = f"{name} watches or searches the whole process, its test runner included."
            yield Sign("tampering", f"looks {name}", text, _line(node))
    match node:
        case ast.Attribute(attr=attr) if attr in _OF_FRAMES and FRAMES & module.mentioned:
            text = f"{attr} of a frame: the code looks at who called it, which may be a test with the answer."
            yield Sign("tampering", f"frame {attr}", text, _line(node))
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _patched(module, target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _patched(module, target)
        case ast.Call(func=ast.Name("setattr"), args=[target, *_]):
            yield from _patch(module.dotted(target), _line(node))
        case ast.ClassDef():
            yield from always_equal(node)


def _patched(module: Module, target: ast.AST) -> Iterator[Sign]:
    match target:
        case ast.Attribute():
            yield from _patch(module.dotted(target), _line(target), module)
        case ast.Subscript(value=value, slice=key):
            name = module.dotted(value)
            own = isinstance(key, ast.Name) and key.id == "__name__"
            if (name == "sys.modules" and not own) or name in ("__builtins__", "builtins.__dict__"):
                yield Sign("tampering", f"patch {name}", f"{name} is written to.", _line(target))


def _patch(name: str, line: int, module: Module | None = None) -> Iterator[Sign]:
    root = name.partition(".")[0]
    known = (
        module is None
        or name.startswith("__builtins__")
        or root in {value.partition(".")[0] for value in module.aliases.values()}
    )
    if root in PATCHED and known and not name.startswith(_ALLOWED):
        text = f"{name} is replaced for the whole process, for tests as well."
        yield Sign("tampering", f"patch {name}", text, line)


def always_equal(node: ast.ClassDef) -> Iterator[Sign]:
    for one in node.body:
        match one:
            case ast.FunctionDef(name=name) if name in _COMPARISONS:
                returned = [inner.value for inner in ast.walk(one) if isinstance(inner, ast.Return)]
                true = all(isinstance(value, ast.Constant) and value.value is True for value in returned)
            case ast.Assign(targets=[ast.Name(name)], value=ast.Lambda(body=ast.Constant(True))) if (
                name in _COMPARISONS
            ):
                returned, true = [one.value], True
            case _:
                continue
        if returned and true:
            text = f"{name} of {node.name} is true whatever it is compared with."
            yield Sign("always_equal", f"equal {name}", text, one.lineno)


def is_under_test(module: Module, place: Place, looks: bool) -> Iterator[Sign]:
    match place.node:
        case ast.Compare(left=left, comparators=others) if looks:
            words = [one.value for one in (left, *others) if isinstance(one, ast.Constant)]
            named = any(isinstance(word, str) and word.partition(".")[0] in RUNNERS for word in words)
            if named or (not place.is_entry and _asks_who_runs_it(module, place.node, words)):
                yield _under_test("a loaded module or the command line", place.node)
        case ast.Call(func=func, args=[ast.Constant(str(word)), *_]) if module.dotted(func) == "sys.modules.get":
            if word.partition(".")[0] in RUNNERS:
                yield _under_test("a loaded module", place.node)
        case ast.Subscript(value=value, slice=ast.Constant(str(word))) if module.dotted(value) == "sys.modules":
            if word.partition(".")[0] in RUNNERS:
                yield _under_test("a loaded module", place.node)


def _asks_who_runs_it(module: Module, node: ast.Compare, words: list[object]) -> bool:
    """``"test" in str(sys.argv)``, and of the file of a caller."""
    if not any(isinstance(word, str) and "test" in word.lower() for word in words):
        return False
    inside = (one for one in ast.walk(node) if isinstance(one, ast.Attribute | ast.Name))
    return any(module.dotted(one) in _SEEN_THERE for one in inside)


def _under_test(how: str, node: ast.AST) -> Sign:
    text = f"The code finds out by {how} whether it is under test, so it may behave otherwise there."
    return Sign("knows_tests", "knows", text, _line(node))


def names_variable(place: Place, said: set[int]) -> Iterator[Sign]:
    node = place.node
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
        for name in VARIABLES & {node.value}:
            text = f"{name} is set where tests run: the code may behave otherwise there."
            yield Sign("knows_tests", f"variable {name}", text, _line(node))


def imports_runner(change: Change, place: Place) -> Iterator[Sign]:
    match place.node:
        case ast.Import(names=names):
            roots = [name.name for name in names]
        case ast.ImportFrom(module=str(name), level=0):
            roots = [name]
        case ast.Call(
            func=ast.Name("__import__") | ast.Attribute(attr="import_module"), args=[ast.Constant(str(name))]
        ):
            roots = [name]
        case _:
            return
    for name in roots if change.name != "conftest.py" else ():
        if name.partition(".")[0] in RUNNERS:
            mocks = name.startswith("unittest.mock") or change.is_apart or name == "doctest" or place.runs == MAIN
            level = Level.TO_KNOW if mocks else Level.SUSPICIOUS
            text = f"Code that is no test imports {name}, by which it could change what tests find."
            yield Sign("tampering", f"import {name.partition('.')[0]}", text, _line(place.node), level)


def hidden_source(change: Change, place: Place, depth: int) -> Iterator[Sign]:
    match place.node:
        case ast.Call(func=ast.Name(name), args=[ast.Constant(str() | bytes() as source), *_]) if (
            name in _SOURCES and depth < _DEEPEST
        ):
            try:
                tree = ast.parse(source)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return
            for sign in signs(change, tree, depth + 1):
                yield Sign(sign.code, sign.key, sign.text, _line(place.node), sign.level)
        case ast.Call(func=ast.Name("exec"), args=[_, *_]) if not change.is_test:
            text = "Code that is made while it runs is executed: nobody reads it here."
            level = Level.TO_KNOW if change.is_apart else Level.SUSPICIOUS
            yield Sign("made_code", "exec", text, _line(place.node), level)
