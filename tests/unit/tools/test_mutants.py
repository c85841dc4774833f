"""Small changes of the lines that a run changed: each is Python, is what it says, and touches nothing else (X4)."""

from __future__ import annotations

import argparse
import ast
import difflib
import random
import re
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import TypeGuard

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.tools.mutants.changed_lines import MOST_COMPARED, changed_lines
from loops.tools.mutants.mutants import LARGEST, MOST_BYTES, Mutant, mutants

pytestmark = pytest.mark.spec("X4")
ALL = 10_000
ROOT = Path(__file__).resolve().parents[3]
SOURCES = [*sorted((ROOT / "loops").rglob("*.py")), *map(Path, (textwrap.__file__, argparse.__file__, random.__file__))]
SOURCES = [one for one in SOURCES if 200 < one.stat().st_size <= 30_000 and "migrations" not in one.parts]


def of(before: str | None, after: str, most: int = ALL, path: str = "lib.py") -> tuple[Mutant, ...]:
    return mutants({path: (None if before is None else before.encode(), after.encode())}, most)


def what_of(body: str, arguments: str = "a, b, c") -> set[str]:
    return {one.what for one in of(None, f"def f({arguments}):\n{textwrap.indent(body, '    ')}\n")}


OPERATORS = {
    "less": ("x = a < b", {"`<` became `<=`"}),
    "less or equal": ("x = a <= b", {"`<=` became `<`"}),
    "greater": ("x = a > b", {"`>` became `>=`"}),
    "greater or equal": ("x = a >= b", {"`>=` became `>`"}),
    "equal": ("x = a == b", {"`==` became `!=`"}),
    "not equal": ("x = a != b", {"`!=` became `==`"}),
    "is": ("x = a is b", {"`is` became `is not`"}),
    "is not": ("x = a is  not b", {"`is not` became `is`"}),
    "in": ("x = a in b", {"`in` became `not in`"}),
    "not in": ("x = a not in b", {"`not in` became `in`"}),
    "a chain": ("x = a < b == c", {"`<` became `<=`", "`==` became `!=`"}),
    "and": ("x = a and b", {"`and` became `or`"}),
    "or": ("x = a or b", {"`or` became `and`"}),
    "not": ("x = not a", {"`not a` became `a`"}),
    "not of a group": ("x = not(a)", {"`not(a)` became `(a)`"}),
    "plus": ("x = a + b", {"`+` became `-`"}),
    "minus": ("x = a - b", {"`-` became `+`"}),
    "times": ("x = a * b", {"`*` became `//`"}),
    "divided": ("x = a / b", {"`/` became `*`"}),
    "floored": ("x = a // b", {"`//` became `*`"}),
    "the rest of a division": ("x = a % b", {"`%` became `*`"}),
    "a power": ("x = a ** b", {"`**` became `*`"}),
    "added to": ("a += b", {"`+=` became `-=`"}),
    "a number": ("x = 41", {"`41` became `42`"}),
    "a number with a point": ("x = 1.5", {"`1.5` became `2.5`"}),
    "true": ("x = True", {"`True` became `False`"}),
    "false": ("x = False", {"`False` became `True`"}),
    "a condition": ("if a:\n    pass", {"`a` was negated"}),
    "a condition on the next": ("if a:\n    pass\nelif b:\n    pass", {"`a` was negated", "`b` was negated"}),
    "a choice": ("x = a if b else c", {"`b` was negated"}),
    "a filter": ("x = [y for y in a if b]", {"`b` was negated"}),
    "a returned value": ("return a", {"`return a` became `return None`"}),
    "a returned group": ("return (\n    a\n)", {"`return ( a )` became `return None`"}),
    "a sign in a comment before it": ("x = (a  # < c\n     < b)", {"`<` became `<=`"}),
    "a sign behind a group": ("x = (a) + (b)", {"`+` became `-`"}),
    "a condition by a sign": ("if a < b:\n    pass", {"`<` became `<=`", "`a < b` was negated"}),
    "a sign whose opposite is the negation": ("if a == b:\n    pass", {"`==` became `!=`"}),
    "the negation that is there": ("if not a:\n    pass", {"`not a` became `a`"}),
    "code of a function within": ("def g():\n    return a\nreturn", {"`return a` became `return None`"}),
    "code of a lambda": ("x = lambda: a < b", {"`<` became `<=`"}),
    "nothing of an empty return": ("return None", set()),
    "nothing of yes and no": ("return False", {"`False` became `True`"}),
    "nothing neutral": ("x = a + 0", {"`0` became `1`"}),
    "nothing that texts cannot do": ("x = 'a' + b\ny = [a] * b\nz = f'{a + 1}'", set()),
    "no text about types": ("x: 1 + 1 = a\ny: list[1]", set()),
    "no number that is only said": ("1", set()),
    "no assertion": ("assert a < b", set()),
    "no error": ("raise E(a + b)", set()),
    "no pattern": ("match a:\n    case 1:\n        pass", set()),
    "no log": ("logger.info(a + b)", set()),
    "no nap": ("time.sleep(a + b)", set()),
    "no type that is claimed": ("x = cast(T[1], a)", set()),
    "no platform": ("if sys.version_info >= a:\n    pass", set()),
    "nothing only for type checkers": ("if TYPE_CHECKING:\n    x = a + b", set()),
    "nothing that nobody can count up": ("x = 1e300\ny = 1e999", set()),
    "no default and no decorator": ("@d(1)\ndef g(x=1, *, y: 2 = 3) -> 4:\n    pass", set()),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), OPERATORS.values(), ids=OPERATORS)
def test_each_operator_has_its_replacement(body: str, expected: set[str]) -> None:
    assert what_of(body) == expected


NOT_MUTATED = {
    "code outside of functions": "x = 1 + 1\nif x < 2:\n    y = True\n",
    "fields of a class": "class A:\n    x = 1\n",
    "a docstring": 'def f():\n    """Returns 1 < 2."""\n',
    "a test": "def test_it():\n    return 1 < 2\n",
    "a class of tests": "class TestIt:\n    def check(self):\n        return 1 < 2\n",
    "a signature": "def f(a=1, *, b: int = 2) -> 3: ...\n",
    "an overload": "@overload\ndef f(a): return 1\n",
    "functions for type checkers": "if TYPE_CHECKING:\n    def f(): return 1\n",
    "no Python": "def f(:\n    return 1\n",
    "another encoding": "# coding: utf-7\ndef f():\n    return 1\n",
    "a null byte": "def f():\n    return 1\n\0",
    "what is nested too deep": f"def f():\n    return {'(' * 5_000}1{')' * 5_000}\n",
    "what is nested too deep without parentheses": f"def f():\n    return {'-' * 100_000}1\n",
    "what is too large": "def f():\n    return 1\n#" + "#" * LARGEST,
    "nothing at all": "",
}


@pytest.mark.parametrize("source", NOT_MUTATED.values(), ids=NOT_MUTATED)
def test_there_is_no_mutant_of(source: str) -> None:
    assert of(None, source) == ()


FUNCTION = "def f(a, b):\n    x = a < b\n    y = a + b\n    return x\n"


def test_only_lines_that_are_other_than_before_are_mutated() -> None:
    found = of(FUNCTION, FUNCTION.replace("a + b", "a - b"))
    assert [(one.line, one.what) for one in found] == [(3, "`-` became `+`")]
    assert {one.line for one in of(None, FUNCTION)} == {2, 3, 4}


def test_nothing_is_mutated_where_only_the_layout_is_other() -> None:
    for after in (FUNCTION.replace("\n", "\r\n"), FUNCTION.replace("a < b", "(a < b)  # so"), f"# new\n{FUNCTION}"):
        assert of(FUNCTION, after) == ()


def test_an_expression_is_mutated_only_where_all_its_lines_are_new() -> None:
    before = "def f(a):\n    return [\n        a,\n    ]\n"
    assert [one.line for one in of(before, before.replace("a,", "1,"))] == [3]
    assert [one.what for one in of(before, before.replace("[", "[1,"))] == ["`1` became `2`"]


def test_files_that_are_not_mutated() -> None:
    data = FUNCTION.encode()
    for path in ("lib.txt", "tests/lib.py", "test_lib.py", "lib.pyi", "spec/lib.py"):
        assert mutants({path: (None, data)}, ALL) == ()
    assert mutants({"lib.py": (data, None)}, ALL) == ()
    assert mutants({"lib.py": (data, data)}, ALL) == ()
    assert mutants({"lib.py": (None, data)}, 0) == mutants({"lib.py": (None, data)}, -1) == ()
    assert len(mutants({"lib.py": (None, data)}, 2)) == 2


def test_files_are_mutated_until_they_are_too_much_together() -> None:
    """Small ones come first."""
    filled = f"{FUNCTION}#{'#' * (LARGEST // 2)}".encode()
    many = {f"a{n:03}.py": (None, filled) for n in range(2 * MOST_BYTES // len(filled))}
    found = {one.path for one in mutants({**many, "z.py": (None, FUNCTION.encode())}, ALL)}
    assert found == {"z.py", *(f"a{n:03}.py" for n in range(MOST_BYTES // len(filled)))}


def test_what_would_be_no_python_is_left_out() -> None:
    """One more pair of parentheses is too many for Python; all else of the function is mutated."""
    source = f"def f(a):\n    if {'(' * 200}a and a{')' * 200}: return a\n"
    found = of(None, source)
    assert {one.what for one in found} == {"`and` became `or`", "`return a` became `return None`"}
    for one in found:
        compile(one.data, "lib.py", "exec")


def test_what_cannot_be_compared_is_new_as_a_whole() -> None:
    assert {one.line for one in of("def f(:\n", FUNCTION)} == {2, 3, 4}


def test_each_function_has_one_before_any_has_a_second() -> None:
    source = "".join(f"def f{n}(a, b):\n    x = a < b\n    return a + b\n\n" for n in range(5))
    lines = {4 * n + at: n for n in range(5) for at in (2, 3)}
    for most in range(1, 11):
        taken = Counter(lines[one.line] for one in of(None, source, most))
        assert len(taken) == min(most, 5)
        assert max(taken.values()) == (1 if most <= 5 else 2)


def test_kinds_of_change_take_turns() -> None:
    source = "".join(f"def f{n}(a, b):\n    x = a < b\n    y = a + b\n    z = a and b\n" for n in range(3))
    assert [one.what for one in of(None, source, 3)] == ["`<` became `<=`", "`and` became `or`", "`+` became `-`"]


def test_files_take_turns() -> None:
    one = b"def f(a, b):\n    return a < b\n\ndef g(a, b):\n    return a < b\n"
    found = mutants({"a.py": (None, one), "b.py": (None, one)}, 3)
    assert [each.path for each in found] == ["a.py", "b.py", "a.py"]


def test_what_may_never_end_comes_last() -> None:
    source = "def f(a):\n    while a < 9:\n        a += 2\n    return a\n"
    found = [one.line for one in of(None, source)]
    assert found[0] == 4
    assert set(found) == {2, 3, 4}


def test_the_same_changes_have_the_same_mutants() -> None:
    data = Path(argparse.__file__).read_bytes()
    changes = {
        name: (None, data[: data.rindex(b"\n\nclass ", 0, at)]) for name, at in (("a.py", 20_000), ("b.py", 50_000))
    }
    assert mutants(changes, 20) == mutants(dict(reversed(changes.items())), 20) != ()


def test_bytes_of_another_encoding_and_marks_stay() -> None:
    latin = '# coding: latin-1\r\ndef f(a): return "ä" if a < 1 else 0\r\n'.encode("latin-1")
    marked = b"\xef\xbb\xbf" + "def f(ä):\r    return ä < 1\r".encode()
    for data, new in ((latin, b'"\xe4" if a <= 1 else 0\r\n'), (marked, "    return ä <= 1\r".encode())):
        found = [one for one in mutants({"lib.py": (None, data)}, ALL) if one.what == "`<` became `<=`"]
        assert len(found) == 1
        assert found[0].data.endswith(new)
        assert len(found[0].data) == len(data) + 1


def test_what_people_read_is_one_short_line() -> None:
    long = "def f(a):\n    if (a.\n        " + "b" * 500 + "):\n        return [\n            a" + ", a" * 500 + "]\n"
    for one in of(None, long):
        assert len(one.what) <= 100
        assert "\n" not in one.what


def same_but_for_one_edit(after: bytes, one: Mutant) -> None:
    """The lines before the named one, and those after its expression, are what they were."""
    compile(one.data, one.path, "exec", dont_inherit=True)
    old, new = after.split(b"\n"), one.data.split(b"\n")
    blocks = [
        each for each in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if each[0] != "equal"
    ]
    assert len(blocks) == 1
    _, begin, end, _, _ = blocks[0]
    spans = [(node.lineno, node.end_lineno or 0) for node in ast.walk(ast.parse(after)) if is_small(node)]
    assert begin >= one.line - 1
    assert end <= max(last for first, last in spans if first <= one.line <= last)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(one.data))
    assert len(one.what) <= 100


def is_small(node: ast.AST) -> TypeGuard[ast.expr | ast.stmt]:
    """An expression, or a statement without others in it."""
    return isinstance(node, ast.expr) or (isinstance(node, ast.stmt) and not hasattr(node, "body"))


@settings(max_examples=40)
@given(st.sampled_from(SOURCES), st.randoms(use_true_random=False))
def test_every_mutant_of_real_code_is_that_code_with_one_small_change(path: Path, chance: random.Random) -> None:
    """Half of the functions are there before, somewhat other."""
    after = path.read_bytes()
    before = b"".join(line for line in after.splitlines(keepends=True) if chance.random() < 0.9)
    new = changed_lines(before, after)
    for old in (None, before):
        for one in mutants({"lib.py": (old, after)}, 5):
            same_but_for_one_edit(after, one)
            assert old is None or one.line in new


SIGNS = st.sampled_from(["<", "==", "is not", "not  in", "and", "or", "+", "*", "%"])
GAPS = st.sampled_from([" ", "  # é <\n  ", "\n\t", " \\\n "])
OPERANDS = st.sampled_from(
    ["a", "(ä)", "not b", "1", "0x1f", "f(x)", "'é'", "[1, 2]", "(a\n)", "lambda: (1)", "-1", "True"]
)


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@given(st.lists(st.tuples(OPERANDS, GAPS, SIGNS, GAPS), min_size=1, max_size=3), OPERANDS, st.booleans())
def test_however_an_expression_is_laid_out_its_mutants_are_python(
    parts: list[tuple[str, str, str, str]], last: str, is_condition: bool
) -> None:
    expression = "(" + "".join("".join(part) for part in parts) + last + ")"
    source = (
        f"def f(a, b, ä, x):\n    if{expression}and a: pass\n"
        if is_condition
        else f"def f(a):\n    return{expression}\n"
    )
    try:
        ast.parse(source)
    except SyntaxError:
        return
    for one in of(None, source):
        compile(one.data, "lib.py", "exec")
        assert ast.dump(ast.parse(one.data)) != ast.dump(ast.parse(source))


HOSTILE = {
    "100,000 lines": "def f(a):\n" + " a\n" * 100_000,
    "one function": "def f(a):\n" + "    a = a + 1\n" * 8_000,
    "functions": "".join(f"def f{n}(a): return a < 1\n" for n in range(4_000)),
    "functions nested too deep to be negated": "".join(
        f"def f{n}(a):\n    if {'(' * 200}a and a{')' * 200}: pass\n" for n in range(250)
    ),
    "a long expression": f"def f(a):\n    return {' and '.join(['a'] * 19_000)}\n",
    "a long sum": f"def f(a):\n    return {' + '.join(['a'] * 19_000)}\n",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_code_takes_no_time(source: str) -> None:
    """Processor time of this thread: a busy machine counts for nothing. Once for each of many files too."""
    states = (re.sub("[<+]|and", "-", source).encode(), source.encode())
    began = time.thread_time()
    mutants({f"a{n}.py": states for n in range(MOST_BYTES // len(source) + 2)}, 6)
    assert time.thread_time() - began < 10


def test_lines_of_very_different_files_are_compared_in_no_time() -> None:
    chance = random.Random(7)
    old, new = (b"\n".join(b"%d" % chance.randrange(2_000) for _ in range(100_000)) for _ in range(2))
    began = time.thread_time()
    assert changed_lines(old, new)
    assert time.thread_time() - began < 5


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")), st.booleans())
def test_a_line_that_is_new_is_found(old: list[str], new: list[str], long: bool) -> None:
    """And of those that stay, so many as there are more of them than before."""
    around = ["x"] * (MOST_COMPARED + 1) if long else []
    before, after = (["q", *around, *old] if long else old), (["r", *around, *new] if long else new)
    found = changed_lines("\n".join(before).encode(), "\n".join(after).encode())
    counts = Counter(after) - Counter(before)
    assert Counter(after[at - 1] for at in found) >= counts if after and before else True
    if before == after:
        assert not found
