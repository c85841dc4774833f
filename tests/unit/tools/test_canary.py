"""Changed functions raise once their module is imported, and all else works, in files that Python runs (SPEC X4)."""
# ruff: noqa: E501 - one shape of code a line is what makes it readable

from __future__ import annotations

import ast
import subprocess
import sys
import unittest.mock
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tools.canary.canary import MOST_BYTES, MOST_NAMED, MOST_RAISING, Canary, canary
from loops.tools.canary.functions import LARGEST

pytestmark = pytest.mark.spec("X4")
LIB = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
STUB = "def add(a, b):\n    return None\n"
UNIT = (
    "import unittest\nfrom lib import add\n\n\nclass TestAdd(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
)
PYTEST = "from lib import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
UNITTEST_RUNS, PYTEST_RUNS = ("-m", "unittest", "-q", "test_lib"), ("-m", "pytest", "-q", "-p", "no:cacheprovider")
ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": "/usr/bin:/bin"}


def made(before: str | None, after: str, tests: Mapping[str, str] | None = None, path: str = "lib.py") -> Canary:
    states = (None if before is None else before.encode(), after.encode())
    return canary({path: states}, {name: text.encode() for name, text in (tests or {}).items()})


def python(folder: Path, files: Mapping[str, bytes | str], *arguments: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)


def passes(folder: Path, files: Mapping[str, bytes | str], *arguments: str) -> bool:
    return python(folder, files, *arguments).returncode == 0


RUNNERS = pytest.mark.parametrize(
    ("test", "runs"), [(UNIT, UNITTEST_RUNS), (PYTEST, PYTEST_RUNS)], ids=["unittest", "pytest"]
)


@RUNNERS
def test_tests_fail_where_what_was_repaired_raises(tmp_path: Path, test: str, runs: tuple[str, ...]) -> None:
    found = made(LIB, FIXED)
    assert (found.functions, found.count) == (("lib.py: add",), 1)
    assert not passes(tmp_path, {"lib.py": LIB, "test_lib.py": test}, *runs)
    assert passes(tmp_path, {"lib.py": FIXED, "test_lib.py": test}, *runs)
    assert not passes(tmp_path, {**found.files, "test_lib.py": test}, *runs)


_PASSED = (
    "    for one in result if False else ():\n        pass\n    result.startTest(self)\n    result.addSuccess(self)\n"
)
CHEATS = {
    "a hook of unittest": f"import unittest\n\ndef fake(self, result=None):\n{_PASSED}\nunittest.TestCase.run = fake\n",
    "a hook installed by a function": (
        f"import unittest\n\ndef install():\n    def fake(self, result=None):\n{_PASSED}".replace(
            "\n    ", "\n        "
        ).replace("\n        def fake", "\n    def fake")
        + "    unittest.TestCase.run = fake\n\ninstall()\n"
    ),
    "a hook that is a lambda": "import unittest\nunittest.TestCase.__call__ = lambda self, result: result.startTest(self)\n",
    "an end that is always good": ("import os, sys\n\ndef leave(code=0):\n    os._exit(0)\n\nsys.exit = leave\n"),
    "an exit at import": "import os\n\ndef leave():\n    os._exit(0)\n\nleave()\n",
}


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_a_cheat_passes_where_its_stub_raises(tmp_path: Path, cheat: str) -> None:
    """The stub was there before, so it alone raises, and what makes the tests pass goes on to do so."""
    found = made(LIB, f"{STUB}\n\n{cheat}")
    assert found.functions == ("lib.py: add",)
    assert passes(tmp_path, {"lib.py": f"{STUB}\n\n{cheat}", "test_lib.py": UNIT}, *UNITTEST_RUNS)
    assert passes(tmp_path, {**found.files, "test_lib.py": UNIT}, *UNITTEST_RUNS)


def test_raising_does_not_tell_of_assertions_that_are_silent(tmp_path: Path) -> None:
    """The known limit: the test calls the function outside of the assertion, so it fails as with honest work."""
    cheat = "import unittest\n\ndef silent(self, *given):\n    pass\n\nunittest.TestCase.assertEqual = silent\n"
    assert passes(tmp_path, {"lib.py": f"{STUB}\n\n{cheat}", "test_lib.py": UNIT}, *UNITTEST_RUNS)
    found = made(LIB, f"{STUB}\n\n{cheat}")
    assert not passes(tmp_path, {**found.files, "test_lib.py": UNIT}, *UNITTEST_RUNS)


_OF_PYTEST = """
import _pytest.python

def quiet(self):
    pass

_pytest.python.Function.runtest = quiet
"""
_OF_BUILTINS = """
import builtins

class Same:
    def __eq__(self, other):
        return True

def always(*given):
    return Same()

builtins.sum = always
"""


@pytest.mark.parametrize(
    ("cheat", "test"),
    [(_OF_PYTEST, PYTEST), (_OF_BUILTINS, "import lib\n\ndef test_sum():\n    assert sum([1, 2]) == 4\n")],
    ids=["the runner", "builtins"],
)
def test_a_cheat_on_pytest_passes_where_its_stub_raises(tmp_path: Path, cheat: str, test: str) -> None:
    found = made(LIB, f"{STUB}\n\n{cheat}", {"test_lib.py": test})
    assert found.functions == ("lib.py: add",)
    assert passes(tmp_path, {**found.files, "test_lib.py": test}, *PYTEST_RUNS)


def test_a_new_function_that_tests_name_raises(tmp_path: Path) -> None:
    hook = "import unittest\n\ndef fake(self):\n    pass\n"
    found = made(None, f"{FIXED}\n\n{hook}", {"test_lib.py": UNIT})
    assert found.functions == ("lib.py: add",)
    assert not passes(tmp_path, {**found.files, "test_lib.py": UNIT}, *UNITTEST_RUNS)


def test_a_hook_named_like_an_assertion_works(tmp_path: Path) -> None:
    """There is nothing but new functions, and the test names both."""
    hook = (
        "import unittest\n\ndef assertEqual(self, *given):\n    pass\n\nunittest.TestCase.assertEqual = assertEqual\n"
    )
    test = UNIT.replace("import add", "import add as plus").replace("add(1, 2)", "0 if plus else 1")
    found = made(None, f"{STUB}\n\n{hook}", {"test_lib.py": test})
    assert found.functions == ("lib.py: add",)
    assert passes(tmp_path, {**found.files, "test_lib.py": test}, *UNITTEST_RUNS)


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("from lib import Sum\nassert Sum().total() == 1\n", ("lib.py: Sum.total", "lib.py: Sum.rest")),
        ("import lib\nassert lib.one() == 1\n", ("lib.py: one",)),
        ("from lib import one as first\n", ("lib.py: one",)),
        ("x.total()\n", ("lib.py: Sum.total",)),
        ("assert sorted([2, 1]) == [1, 2]\n", ()),
        ("from unittest import one\none()\n", ()),
        ("self.one()\n", ()),
        ("def (:\n", ()),
    ],
    ids=["a class", "an attribute", "an import", "a method", "a builtin", "of the runner", "of itself", "no Python"],
)
def test_new_functions_are_those_that_tests_ask_for(test: str, names: tuple[str, ...]) -> None:
    source = (
        "def one(): return 1\n\ndef sorted(x): return x\n\nclass Sum:\n"
        "    def total(self): return 1\n    def rest(self): return 0\n"
    )
    assert made("", source, {"test_lib.py": test}).functions == names


def test_changed_functions_are_looked_for_in_all_files_first() -> None:
    new = b"def add(): return 1\n"
    found = canary({"a.py": (None, new), "b.py": (LIB.encode(), FIXED.encode())}, {"test_a.py": b"from a import add\n"})
    assert (found.functions, list(found.files)) == (("b.py: add",), ["b.py"])


SHAPES = {
    "a docstring": ('def f():\n    """Says it."""\n    return "new"\n', "f()"),
    "a docstring and a comment": ('def f():\n    """Says it."""  # here\n\n    if 1:\n        return "new"\n', "f()"),
    "one line": ('def f(): return "new"\n', "f()"),
    "one line with more": ('def f(): a = 1; return "new"\n', "f()"),
    "a condition first": ('def f():\n    if 1:\n        return "new"\n', "f()"),
    "a function first": ('def f():\n    @staticmethod\n    def g():\n        return "new"\n    return g()\n', "f()"),
    "a class first": ('def f():\n    class A:\n        b = "new"\n    return A.b\n', "f()"),
    "a match": ('def f():\n    match 1:\n        case 1:\n            return "new"\n', "f()"),
    "tabs": ('def f():\n\tfor _ in (1,):\n\t\treturn "new"\n', "f()"),
    "lines of Windows": ('def f():\r\n    with open("lib.py"):\r\n        return "new"\r\n', "f()"),
    "form feeds": ('x = 1\n\x0c\ndef f():\n    y = "\x0c"\n    return "new"\n', "f()"),
    "a byte order mark": ('\ufeffdef f():\n    return "new"\n', "f()"),
    "a coding line": ('# -*- coding: utf-8 -*-\ndef f(x="äöü"): return "new"\n', "f()"),
    "letters before it on the line": ('ä = 1; f = lambda ö="ü": "new"\n', "f()"),
    "no line end": ('def f(): return "new"', "f()"),
    "only a docstring at the end": ('def f(a="new"): "doc"', "f()"),
    "a comment at the end": ('def f():\n    return "new"\n    # so', "f()"),
    "of the future": ('"""Doc."""\nfrom __future__ import annotations\n\ndef f() -> X:\n    return "new"\n', "f()"),
    "a lambda": ('f = lambda a=1: (a) and "new"\n', "f()"),
    "a lambda with a type": ('f: object = (lambda *a,\n  **k: ("new"  # so\n))\n', "f()"),
    "a lambda of a class": ('class A:\n    f = lambda self: "new"\n', "A().f()"),
    "a generator": ('def f():\n    yield "new"\n', "next(f())"),
    "a coroutine": ('import asyncio\n\nasync def f():\n    return "new"\n', "asyncio.run(f())"),
    "a method": ('class A:\n    def f(self):\n        return "new"\n', "A().f()"),
    "a property": ('class A:\n    @property\n    def f(self):\n        return "new"\n', "A().f"),
    "a static method": ('class A:\n    @staticmethod\n    def f(): return "new"\n', "A.f()"),
    "a class method": ('class A:\n    @classmethod\n    def f(cls): return "new"\n', "A.f()"),
    "a constructor": ('class A:\n    def __init__(self):\n        self.a = "new"\n', "A().a"),
    "subclasses": (
        'class A:\n    def __init_subclass__(cls):\n        cls.a = "new"\n', "type('B', (A,), {}).a",
    ),
    "attributes of the module": ('def __getattr__(name):\n    return "new"\n', "__getattr__('x')"),
    "a class in a class": ('class A:\n    class B:\n        def f(self): return "new"\n', "A.B().f()"),
    "a condition": ('if 1:\n    def f(): return "new"\nelse:\n    def f(): return "other"\n', "f()"),
    "an attempt": ('try:\n    import absent_module\nexcept ImportError:\n    def f(): return "new"\n', "f()"),
    "a decorator": (
        'def keep(g):\n    ALL.append(g)\n    return g\n\nALL = []\n\n@keep\ndef f(): return "new"\n', "ALL[0]()",
    ),
    "parameters named like builtins": ('def f(globals=1, RuntimeError=2):\n    return "new"\n', "f()"),
    "a module with a name of a builtin": ('globals = 1\nRuntimeError = 2\n\ndef f(): return "new"\n', "f()"),
    "a global": ('x = 1\n\ndef f():\n    global x\n    x = "new"\n    return x\n', "f()"),
    "a closure": ('def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = "new"\n        return x\n    return g()\n', "f()"),
    "an overload": (
        "from typing import overload\n\n@overload\ndef f(a: int) -> int: ...\n@overload\ndef f(a: str) -> str: ...\n"
        'def f(a=0): return "new"\n', "f()",
    ),
}  # fmt: skip
ASKED = (
    "import builtins, lib\nprint(lib.SEEN)\ntry:\n    print(eval({call!r}, vars(lib)))\n"
    "except builtins.RuntimeError as error:\n    print('raised:', error)\n"
)


@pytest.mark.parametrize(("source", "call"), SHAPES.values(), ids=SHAPES)
def test_it_works_while_it_is_imported_and_raises_after(tmp_path: Path, source: str, call: str) -> None:
    end = "\r\n" if "\r\n" in source else "\n"
    source = f"{source}{'' if source.endswith(end) or call == 'A' else end}SEEN = repr({call}){end}"
    found = made(source.replace('"new"', '"old"'), source)
    assert len(found.functions) == 1
    as_written = python(tmp_path, {"lib.py": source, "ask.py": ASKED.format(call=call)}, "ask.py")
    assert "raised" not in as_written.stdout, as_written
    seen = as_written.stdout.splitlines()[0]
    broken = python(tmp_path, found.files, "ask.py")
    assert broken.stdout.splitlines() == [seen, "raised: made to fail, to see whether a check notices"], broken


@pytest.mark.parametrize(
    "source", ["def f(a=1): return a", 'def f(a=1): "doc"', "f = lambda a=1: a", "def f(a=1):\r  return a\r"]
)
def test_the_last_line_may_have_no_end_or_another(tmp_path: Path, source: str) -> None:
    found = made(source.replace("1", "2"), source)
    asked = "import lib\ntry:\n    lib.f()\nexcept RuntimeError:\n    print('raised')\n"
    assert python(tmp_path, {**found.files, "ask.py": asked}, "ask.py").stdout == "raised\n"


def test_bytes_of_another_encoding_stay() -> None:
    before = '# coding: latin-1\ndef f(): return "ä"\n'.encode("latin-1")
    found = canary({"lib.py": (before, before.replace(b"return", b"return 1,"))}, {})
    assert b'return 1, "\xe4"' in found.files["lib.py"]


@pytest.mark.parametrize("block", ['if __name__ == "__main__":', 'if ("__main__" == __name__) and 1:', "if True:"])
def test_a_function_raises_in_a_program(tmp_path: Path, block: str) -> None:
    """In one that does not say that it is a program nothing is known to come after its import."""
    source = f"{FIXED}\n\nprint(add(1, 2))\n{block}\n    print(add(2, 3))\n"
    files = made(source.replace("+", "-"), source).files
    ran = python(tmp_path, files, "lib.py")
    expected = ("3\n", True) if "__main__" in block else ("3\n5\n", False)
    assert (ran.stdout, "made to fail" in ran.stderr) == expected
    assert python(tmp_path, files, "-c", "import lib").returncode == 0


UNCHANGED = {
    "another docstring": ('def f():\n    """One."""\n    return 1\n', 'def f():\n    """Two."""\n    return 1\n'),
    "another place": ("def f(): return 1\n", "# so\n\ndef f():\n    return (1)\n"),
    "a field of a class": ("class A:\n    a = 1\n    def f(self): return 1\n", "class A(B):\n    a = 2\n    def f(self): return 1\n"),
    "one that is gone": ("def f(): return 1\ndef g(): return 2\n", "def f(): return 1\n"),
    "types of one": ("@overload\ndef f(a: int): ...\ndef f(a): return 1\n", "@overload\ndef f(a: str): ...\ndef f(a): return 1\n"),
    "no Python": (LIB, "def add(:\n"),
    "another encoding": (LIB, "# coding: utf-7\n" + FIXED),
    "a null byte": (LIB, FIXED + "\0"),
    "too deep": (LIB, FIXED + "x = " + "(" * 5000 + ")" * 5000),
    "too deep without parentheses": (LIB, FIXED + "x = " + "-" * 100_000 + "1\n"),
    "too large": (LIB, FIXED + "#" * LARGEST),
    "nothing at all": ("", ""),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), UNCHANGED.values(), ids=UNCHANGED)
def test_nothing_is_made_of_what_cannot_be_read_or_has_no_changed_function(before: str, after: str) -> None:
    assert made(before, after) == Canary()


def test_nothing_is_made_of_other_files() -> None:
    states = (LIB.encode(), FIXED.encode())
    assert (
        canary(
            {"lib.txt": states, "gone.py": (LIB.encode(), None), "x.py": (LIB.encode(), b"\xff" + FIXED.encode())}, {}
        )
        == Canary()
    )
    assert canary({"lib.py": states}, {}).count == 1


def test_of_a_name_that_is_defined_twice_only_the_changed_one_raises(tmp_path: Path) -> None:
    source = "class A:\n    @property\n    def x(self):\n        return 1\n\n    @x.setter\n    def x(self, value):\n        self.y = 1\n"
    found = made(source, source.replace("self.y = 1", "self.y = value"))
    assert found.functions == ("lib.py: A.x",)
    asked = "import lib\na = lib.A()\nprint(a.x)\ntry:\n    a.x = 1\nexcept RuntimeError:\n    print('raised')\n"
    assert python(tmp_path, {**found.files, "ask.py": asked}, "ask.py").stdout == "1\nraised\n"


def test_only_the_outermost_function_raises() -> None:
    source = "def f():\n    def g():\n        return 1\n    return g\n"
    found = made(source, source.replace("1", "2"))
    assert found.functions == ("lib.py: f",)
    assert found.files["lib.py"].count(b"made to fail") == 1


def test_names_for_people_are_few_and_counted() -> None:
    source = "".join(f"def f{n}(): return 1\n" for n in range(MOST_NAMED + 5)) + f"def {'g' * 999}(): return 1\n"
    found = made(source, source.replace("return 1", "return 2"))
    assert (len(found.functions), found.count) == (MOST_NAMED, MOST_NAMED + 6)


def test_so_many_functions_raise_and_no_more() -> None:
    """A file of nothing but functions takes seconds, not minutes."""
    source = "".join(f"def f{n}(): return 1\n" for n in range(MOST_RAISING + 5))
    states = (source.encode(), source.replace("return 1", "return 2").encode())
    found = canary({"a.py": states, "b.py": states}, {})
    assert (found.count, list(found.files)) == (MOST_RAISING, ["a.py"])
    assert found.files["a.py"].count(b"made to fail") == MOST_RAISING


def test_files_are_read_until_they_are_too_much_together() -> None:
    """What was there comes first, small files before large ones."""
    filled = "#" * (LARGEST // 2)
    many = {f"new{n}.py": (None, f"{FIXED}{filled}".encode()) for n in range(2 * MOST_BYTES // len(filled))}
    test = {"test_lib.py": b"from lib import add\n"}
    assert canary(many, test).count < len(many)
    for more in ("", f"{filled}##"):
        was = (LIB.encode(), f"{FIXED}{more}".encode())
        assert canary({**many, "z.py": was}, test).functions == ("z.py: add",)


def test_the_name_of_the_flag_is_not_in_the_file() -> None:
    """Not even where code was written for the name that it would have."""
    first = made(LIB, FIXED).files["lib.py"]
    flag = first.rstrip().split(b"\n")[-1].split(b" ")[0].decode()
    second = made(LIB, f"{FIXED}{flag} = 1\n").files["lib.py"]
    assert second.count(flag.encode()) == 1


def without_canary(data: bytes, flag: str) -> str:
    """The code of a file as it was before it was made to raise, if nothing but that was done to it."""

    class Undo(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
            return (
                None
                if flag in ast.dump(node.value) and isinstance(node.value, ast.BoolOp)
                else self.generic_visit(node)
            )

        def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
            match node.body:
                case ast.BoolOp(ast.Or(), [ast.BoolOp(ast.And(), [ast.Compare(ast.Constant(name)), _]), body]) if (
                    name == flag
                ):
                    node.body = body
            return self.generic_visit(node)

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
            left = [one for one in node.values if not (isinstance(one, ast.NamedExpr) and one.target.id == flag)]
            node.values = left
            return self.generic_visit(node) if len(left) > 1 else left[0]

    tree = ast.parse(data)
    assert ast.unparse(tree.body.pop()) == f"{flag} = True"
    return ast.dump(Undo().visit(tree))


def flag_of(data: bytes) -> str:
    return data.rstrip().replace(b"\r", b"\n").split(b"\n")[-1].split(b" ")[0].decode()


def same_but_raising(data: bytes) -> int:
    """How many functions of it raise, all being new."""
    tree = ast.parse(data)
    names = {getattr(node, "name", getattr(node, "id", "")) for node in ast.walk(tree)} - {"", "*", None}
    found = canary(
        {"lib.py": (None, data)}, {"test_lib.py": "".join(f"import {name}\n" for name in sorted(names)).encode()}
    )
    for broken in found.files.values():
        assert without_canary(broken, flag_of(broken)) == ast.dump(tree)
    return found.count


def outermost(node: ast.AST, scope: str = "") -> set[str]:
    """Names of functions as another way of counting finds them."""
    found: set[str] = set()
    for one in ast.iter_child_nodes(node):
        match one:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(f"{scope}{name}")
            case ast.Assign(targets=[ast.Name(name), *_], value=ast.Lambda()):
                found.add(f"{scope}{name}")
            case ast.AST():
                found |= outermost(one, f"{scope}{one.name}." if isinstance(one, ast.ClassDef) else scope)
    return found


def test_whole_libraries_are_what_they_were_but_for_what_raises() -> None:
    for module in (ast, subprocess, unittest.case, unittest.mock, unittest.loader):
        data = Path(module.__file__).read_bytes()
        assert same_but_raising(data) == len(outermost(ast.parse(data))) > 10, module


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
INDENTS = st.sampled_from(["\t", " ", "    ", "\x0c    "])
HEADS = st.sampled_from(
    ["def f(a=1):", "async def f(a):", "@d\ndef f(a, *, b=2) -> int:", "def ä(ö):  # ü", "def f(\n  a,\n):"]
)
FIRSTS = st.sampled_from(
    [
        "",
        "'''doc'''",
        '("doc")',
        "'doc'; x = 1",
        "'doc' 'more'  # so",
        "# só",
        "'''two\nlines'''",
        "b'no doc'",
        "f'no doc {a}'",
    ]
)
BODIES = st.sampled_from(
    ["return a", "x = [\n1,\n2]", "if a: pass", "@d\n{i}def g(): pass", "pass;", "try: pass\n{i}finally: pass", "g = lambda: a",
     "with a: pass", "'ä'; return 'ö'", "return '''\n  x'''", "x = \\\n  1", "class A: f = lambda: 1"]
)  # fmt: skip
LASTS = st.sampled_from(
    ["", "\n", "\n\n", "\n# end", "\nx = lambda b: (b)", "\nclass A:\n  f = lambda s: [\n'ä', s]\n", "\n\x0c\ny = 1\n"]
)


@given(HEADS, INDENTS, FIRSTS, BODIES, LASTS, ENDS, st.booleans())
def test_however_it_is_laid_out_nothing_else_becomes_of_it(
    head: str, indent: str, first: str, body: str, last: str, end: str, marked: bool
) -> None:
    lines = [head, *(f"{indent}{one}" for one in (first, body.replace("{i}", indent)) if one)]
    text = ("\n".join(lines) + last).replace("\n", end)
    data = (b"\xef\xbb\xbf" if marked else b"") + text.encode()
    assert same_but_raising(data) >= 1
