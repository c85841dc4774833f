"""JavaScript and TypeScript, read by words: strings and comments apart, brackets matched. It is no parser."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from loops.tools.suspicion.changes import whole_text
from loops.tools.suspicion.python_tests import BARE, LOOSE, STRICT, Case, Check

_TOKEN = re.compile(
    r"""//[^\n]*+
      | /\*(?:[^*]|\*(?!/))*+(?:\*/)?
      | "(?:[^"\\\n]|\\.)*+"?
      | '(?:[^'\\\n]|\\.)*+'?
      | `(?:[^`\\]|\\.)*+`?
      | [A-Za-z_$][\w$]*+
      | \d[\w.]*+
      | ===|!==|=>|==|!=|<=|>=|&&|\|\||\?\?
      | [^\s]
    """,
    re.VERBOSE | re.DOTALL,
)
OPEN, CLOSE = "([{", ")]}"
LONGEST = 300
"""Words between two brackets that are looked at together."""
_TESTS = frozenset({"it", "test", "specify", "xit", "xtest", "xspecify", "fit"})
_GROUPS = frozenset({"describe", "context", "suite", "xdescribe", "xcontext", "fdescribe"})
_AWAY = frozenset({"xit", "xtest", "xspecify", "xdescribe", "xcontext", "skip", "todo", "failing", "fails", "skipIf"})
_ONLY = frozenset({"only", "fit", "fdescribe"})
STRICT_NAMES = frozenset({
    "toBe", "toEqual", "toStrictEqual", "strictEqual", "deepStrictEqual", "deepEqual", "equal", "equals", "same",
    "is", "eql", "eq", "strictSame", "toThrowError", "throws", "rejects", "toBeNull", "toBeUndefined", "isDeepEqual",
})  # fmt: skip
_BARE = frozenset({"ok", "toBeDefined", "toBeTruthy", "toBeFalsy", "exist", "truthy", "pass"})
_LOOSE = frozenset({
    "toContain", "toMatch", "toBeCloseTo", "toBeGreaterThan", "toBeLessThan", "toHaveLength", "toMatchObject", "notOk",
    "notEqual", "match", "include", "toThrow", "notStrictEqual", "notDeepEqual", "toHaveProperty", "falsy", "fail",
    "toHaveBeenCalled", "toHaveBeenCalledWith", "doesNotThrow", "toBeInstanceOf", "true", "false", "assert",
})  # fmt: skip
_JUDGES = frozenset({"expect", "assert", "t", "should", "chai", "test"})


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    line: int

    @property
    def is_string(self) -> bool:
        return self.text[0] in "\"'`"


def words_of(data: bytes | None) -> list[Word]:
    """Without comments."""
    text, found, line, at = whole_text(data), [], 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if not match[0].startswith(("//", "/*")):
            found.append(Word(match[0], line))
    return found


def closings(words: list[Word]) -> dict[int, int]:
    """The place of each bracket that is closed, and where."""
    stack: list[int] = []
    found = {}
    for at, word in enumerate(words):
        if word.text in OPEN:
            stack.append(at)
        elif word.text in CLOSE and stack:
            found[stack.pop()] = at
    return found


def cases(words: list[Word]) -> dict[str, Case]:
    """Each test by its title, and one without a name for what stands around them."""
    ends = closings(words)
    found = {"": Case("", 0, False)}
    titles = Counter[str]()
    begun: list[tuple[int, str]] = []
    for at, word in enumerate(words):
        while begun and at >= begun[-1][0]:
            begun.pop()
        _look(words, at, ends, found[begun[-1][1] if begun else ""])
        if word.text not in _TESTS | _GROUPS or (at and words[at - 1].text == "."):
            continue
        said, opening = marks(words, at)
        if opening not in ends:
            continue
        title = words[opening + 1].text[1:-1] if words[opening + 1].is_string else ""
        is_test = word.text in _TESTS
        name = title if is_test else f"group {title}"
        titles[name] += 1
        name += f" #{titles[name]}" if is_test and titles[name] > 1 else ""
        case = found.setdefault(name, Case(name, word.line, is_test))
        if is_test:
            begun.append((ends[opening], name))
        if {word.text, *said} & _AWAY:
            case.skips.append(word.line)
        if {word.text, *said} & _ONLY:
            found[""].skips.append(word.line)
    return found


def marks(words: list[Word], at: int) -> tuple[list[str], int]:
    """``.skip`` and the like behind a word, and where its bracket opens."""
    found, at = list[str](), at + 1
    while at + 1 < len(words) and words[at].text == ".":
        found.append(words[at + 1].text)
        at += 2
    return found, at if at + 1 < len(words) and words[at].text == "(" else -1


def _look(words: list[Word], at: int, ends: dict[int, int], case: Case) -> None:
    word, after = words[at], words[at + 1].text if at + 1 < len(words) else ""
    if after == "(" and at + 1 in ends:
        inner = words[at + 2 : min(ends[at + 1], at + LONGEST)]
        if word.text == "expect":
            _expected(words, ends, at, inner, case)
        elif is_judged(words, at) and word.text in STRICT_NAMES | _LOOSE | _BARE:
            rank = (
                STRICT if word.text in STRICT_NAMES else BARE if word.text in _BARE or word.text == "assert" else LOOSE
            )
            first, second = arguments(inner)
            case.checks.append(Check(literals(first), literals(second), rank, word.line))
            if (rank == STRICT and first and first == second) or (rank == BARE and first in (["true"], ["1"])):
                case.truths.append(word.line)
        elif word.text == "skip" and at and words[at - 1].text == "." and words[at - 2].text in ("this", "t", "ctx"):
            case.skips.append(word.line)
    if word.text in ("skip", "todo") and after == ":" and at + 2 < len(words) and words[at + 2].text != "false":
        case.skips.append(word.line)
    if word.text == "try" and after == "{" and at + 1 in ends:
        _swallowed(words, at + 1, ends, case)


def is_judged(words: list[Word], at: int) -> bool:
    if words[at].text == "assert":
        return at == 0 or words[at - 1].text not in (".", "function")
    return at > 1 and words[at - 1].text == "." and words[at - 2].text in _JUDGES | {"strict"}


def _expected(words: list[Word], ends: dict[int, int], at: int, inner: list[Word], case: Case) -> None:
    """``expect(a).not.toBe(b)``."""
    names, opening = marks(words, ends[at + 1])
    if opening not in ends:
        opening = -1
    matcher = names[-1] if names else ""
    rank = BARE if matcher in _BARE or not matcher else STRICT if matcher in STRICT_NAMES else LOOSE
    rank = LOOSE if "not" in names and rank == STRICT else rank
    given = words[opening + 1 : min(ends[opening], opening + LONGEST)] if opening > 0 else []
    about, expected = [word.text for word in inner], [word.text for word in given]
    case.checks.append(Check(literals(about), literals(expected), rank, words[at].line))
    if (about and about == expected and rank == STRICT) or (
        about == ["true"] and matcher in ("toBeTruthy", "toBeDefined")
    ):
        case.truths.append(words[at].line)


def arguments(inner: list[Word]) -> tuple[list[str], list[str]]:
    depth, parts = 0, [list[str]()]
    for word in inner:
        depth += (word.text in OPEN) - (word.text in CLOSE)
        if word.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word.text)
    return parts[0], parts[1] if len(parts) > 1 else []


def literals(texts: list[str]) -> tuple[str, ...]:
    values = ("true", "false", "null", "undefined", "NaN")
    return tuple(one for one in texts if one[0] in "\"'`" or one[0].isdigit() or one in values)


def _swallowed(words: list[Word], opening: int, ends: dict[int, int], case: Case) -> None:
    end = ends[opening]
    if end + 1 >= len(words) or words[end + 1].text != "catch":
        return
    at = end + 2
    at = ends.get(at, at) + 1 if at < len(words) and words[at].text == "(" else at
    handler = {word.text for word in words[at : min(ends.get(at, at), at + LONGEST)]}
    checks = any(word.text in ("expect", "assert") for word in words[opening : min(end, opening + LONGEST)])
    if checks and not handler & {"throw", "fail", "expect", "assert", "rethrow", "reject", "done"}:
        case.swallowed.append(words[opening].line)
