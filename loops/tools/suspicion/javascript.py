"""JavaScript and TypeScript, read by words: strings and comments apart, brackets matched. It is no parser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from loops.engine.state.remark import Level
from loops.tools.suspicion.changes import Change, whole_text
from loops.tools.suspicion.python_tests import BARE, LOOSE, STRICT, Case, Check
from loops.tools.suspicion.signs import Sign

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
_OPEN, _CLOSE = "([{", ")]}"
_LONGEST = 300
"""Words between two brackets that are looked at together."""
_TESTS = frozenset({"it", "test", "specify", "xit", "xtest", "xspecify", "fit"})
_GROUPS = frozenset({"describe", "context", "suite", "xdescribe", "xcontext", "fdescribe"})
_AWAY = frozenset({"xit", "xtest", "xspecify", "xdescribe", "xcontext", "skip", "todo", "failing", "fails", "skipIf"})
_ONLY = frozenset({"only", "fit", "fdescribe"})
_STRICT = frozenset({
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
        if word.text in _OPEN:
            stack.append(at)
        elif word.text in _CLOSE and stack:
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
        marks, opening = _marks(words, at)
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
        if {word.text, *marks} & _AWAY:
            case.skips.append(word.line)
        if {word.text, *marks} & _ONLY:
            found[""].skips.append(word.line)
    return found


def _marks(words: list[Word], at: int) -> tuple[list[str], int]:
    """``.skip`` and the like behind a word, and where its bracket opens."""
    marks, at = [], at + 1
    while at + 1 < len(words) and words[at].text == ".":
        marks.append(words[at + 1].text)
        at += 2
    return marks, at if at + 1 < len(words) and words[at].text == "(" else -1


def _look(words: list[Word], at: int, ends: dict[int, int], case: Case) -> None:
    word, after = words[at], words[at + 1].text if at + 1 < len(words) else ""
    if after == "(" and at + 1 in ends:
        inner = words[at + 2 : min(ends[at + 1], at + _LONGEST)]
        if word.text == "expect":
            _expected(words, ends, at, inner, case)
        elif _is_judged(words, at) and word.text in _STRICT | _LOOSE | _BARE:
            rank = STRICT if word.text in _STRICT else BARE if word.text in _BARE or word.text == "assert" else LOOSE
            first, second = _arguments(inner)
            case.checks.append(Check(_literals(first), _literals(second), rank, word.line))
            if (rank == STRICT and first and first == second) or (rank == BARE and first in (["true"], ["1"])):
                case.truths.append(word.line)
        elif word.text == "skip" and at and words[at - 1].text == "." and words[at - 2].text in ("this", "t", "ctx"):
            case.skips.append(word.line)
    if word.text in ("skip", "todo") and after == ":" and at + 2 < len(words) and words[at + 2].text != "false":
        case.skips.append(word.line)
    if word.text == "try" and after == "{" and at + 1 in ends:
        _swallowed(words, at + 1, ends, case)


def _is_judged(words: list[Word], at: int) -> bool:
    if words[at].text == "assert":
        return at == 0 or words[at - 1].text not in (".", "function")
    return at > 1 and words[at - 1].text == "." and words[at - 2].text in _JUDGES | {"strict"}


def _expected(words: list[Word], ends: dict[int, int], at: int, inner: list[Word], case: Case) -> None:
    """``expect(a).not.toBe(b)``."""
    names, opening = _marks(words, ends[at + 1])
    if opening not in ends:
        opening = -1
    matcher = names[-1] if names else ""
    rank = BARE if matcher in _BARE or not matcher else STRICT if matcher in _STRICT else LOOSE
    rank = LOOSE if "not" in names and rank == STRICT else rank
    given = words[opening + 1 : min(ends[opening], opening + _LONGEST)] if opening > 0 else []
    about, expected = [word.text for word in inner], [word.text for word in given]
    case.checks.append(Check(_literals(about), _literals(expected), rank, words[at].line))
    if (about and about == expected and rank == STRICT) or (
        about == ["true"] and matcher in ("toBeTruthy", "toBeDefined")
    ):
        case.truths.append(words[at].line)


def _arguments(inner: list[Word]) -> tuple[list[str], list[str]]:
    depth, parts = 0, [list[str]()]
    for word in inner:
        depth += (word.text in _OPEN) - (word.text in _CLOSE)
        if word.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word.text)
    return parts[0], parts[1] if len(parts) > 1 else []


def _literals(texts: list[str]) -> tuple[str, ...]:
    values = ("true", "false", "null", "undefined", "NaN")
    return tuple(one for one in texts if one[0] in "\"'`" or one[0].isdigit() or one in values)


def _swallowed(words: list[Word], opening: int, ends: dict[int, int], case: Case) -> None:
    end = ends[opening]
    if end + 1 >= len(words) or words[end + 1].text != "catch":
        return
    at = end + 2
    at = ends.get(at, at) + 1 if at < len(words) and words[at].text == "(" else at
    handler = {word.text for word in words[at : min(ends.get(at, at), at + _LONGEST)]}
    checks = any(word.text in ("expect", "assert") for word in words[opening : min(end, opening + _LONGEST)])
    if checks and not handler & {"throw", "fail", "expect", "assert", "rethrow", "reject", "done"}:
        case.swallowed.append(words[opening].line)


# --- code that is no test ---------------------------------------------------------------------------------------------

_ENDS = {("process", "exit"), ("process", "reallyExit"), ("process", "abort"), ("process", "kill")}
_TAMPERS = {("require", "cache"), ("process", "binding"), ("Module", "_load"), ("Module", "_resolveFilename"),
            ("Module", "_extensions")}  # fmt: skip
_REPLACED = frozenset({"globalThis", "global", "assert", "expect", "Date", "Math", "JSON", "Promise", "console"})
_SHARED = frozenset({"Object", "Array", "Function", "String", "Number", "Promise"})
_VARIABLES = frozenset(
    {"NODE_TEST_CONTEXT", "JEST_WORKER_ID", "VITEST_WORKER_ID", "VITEST_POOL_ID", "PYTEST_CURRENT_TEST"}
)
_WRITE = frozenset({"assign", "defineProperty", "defineProperties", "setPrototypeOf"})
_RUNNERS = frozenset({"node:test", "jest", "@jest/globals", "vitest", "mocha", "tape", "ava", "node:assert", "assert"})


def signs(change: Change, words: list[Word]) -> Iterator[Sign]:
    yield from _patched_runners(change, words)
    for at, word in enumerate(words):
        said = word.text.strip("\"'`")
        if said in _VARIABLES or said == "AGENTOPS_TEST_REPORT":
            text = f"{said} is set where tests run: the code may behave otherwise there."
            yield Sign("knows_tests", f"variable {said}", text, word.line)
        if at + 2 >= len(words) or words[at + 1].text not in (".", "["):
            continue
        name, after = words[at + 2].text.strip("\"'`"), words[at + 3].text if at + 3 < len(words) else ""
        if (word.text, name) in _ENDS:
            yield _end(change, word.text, name, after, words, at)
        elif change.is_test:
            continue
        elif (word.text, name) in _TAMPERS:
            yield Sign("tampering", f"looks {name}", f"{word.text}.{name} changes what others load.", word.line)
        elif word.text in _REPLACED and after == "=" and not (at and words[at - 1].text == "."):
            text = f"{word.text}.{name} is replaced for the whole process, for tests as well."
            yield Sign("tampering", f"patch {word.text}.{name}", text, word.line)
        elif name == "prototype" and word.text in _SHARED and [one.text for one in words[at + 5 : at + 6]] == ["="]:
            text = f"{word.text}.prototype is written to, for tests as well."
            yield Sign("tampering", f"prototype {word.text}", text, word.line)


def _patched_runners(change: Change, words: list[Word]) -> Iterator[Sign]:
    """``require("assert").equal = …``, by a name of it, and what ``Object`` writes into it."""
    if change.is_test:
        return
    texts = [word.text for word in words]
    named = {name for at, word in enumerate(words) if word.is_string for name in _names_of(texts, at)}
    for at, word in enumerate(words):
        required = texts[max(at - 3, 0) : at - 1] == ["require", "("] and word.text == ")" and _is_runner(texts[at - 1])
        if _is_written(texts, at, word.text in named or required, {*named, "assert"}):
            text = "What tests compare with is replaced for the whole process."
            yield Sign("tampering", "patch a runner", text, word.line)


def _is_written(texts: list[str], at: int, is_runner: bool, runners: set[str]) -> bool:
    after = [*texts[at + 1 : at + 5], "", "", "", ""]
    if is_runner and (after[0], after[2]) == (".", "="):
        return True
    if is_runner and (after[0], after[2], after[3]) == ("[", "]", "="):
        return True
    return texts[at] == "Object" and after[1] in _WRITE and after[2] == "(" and after[3] in runners


def _names_of(texts: list[str], at: int) -> Iterator[str]:
    """By which the runner that is required, or imported, here is known."""
    if not _is_runner(texts[at]):
        return
    if texts[at - 2 : at] == ["require", "("] and at > 3 and texts[at - 3] == "=":
        yield texts[at - 4]
    elif at > 1 and texts[at - 1] == "from":
        yield texts[at - 2]


def _is_runner(text: str) -> bool:
    return text.strip("\"'`").removesuffix("/strict") in _RUNNERS


def _end(change: Change, owner: str, name: str, after: str, words: list[Word], at: int) -> Sign:
    """Of an exit with a number other than 0, and of a program, it is only good to know."""
    fails = after == "(" and at + 4 < len(words) and words[at + 4].text.isdigit() and words[at + 4].text != "0"
    harmless = fails or (name in ("exit", "kill") and change.is_apart and not change.is_test)
    level = Level.TO_KNOW if harmless else Level.SUSPICIOUS
    return Sign("process_end", f"end {owner}.{name}", f"{owner}.{name} ends the process.", words[at].line, level)


def answers_of_tests(words: list[Word]) -> set[tuple[str, str]]:
    """(inputs, output) of ``expect(f(1)).toBe(2)`` and ``assert.equal(f(1), 2)``."""
    found, ends = set(), closings(words)
    for at, word in enumerate(words):
        if at + 1 not in ends or words[at + 1].text != "(":
            continue
        inner = words[at + 2 : min(ends[at + 1], at + _LONGEST)]
        if word.text == "expect":
            names, opening = _marks(words, ends[at + 1])
            if names and names[-1] in _STRICT and opening in ends:
                found |= _answer(
                    [one.text for one in inner],
                    [one.text for one in words[opening + 1 : min(ends[opening], opening + _LONGEST)]],
                )
        elif word.text in _STRICT and _is_judged(words, at):
            found |= _answer(*_arguments(inner))
    return found


def _answer(call: list[str], value: list[str]) -> set[tuple[str, str]]:
    inputs, output = _literals(call), _literals(value)
    return {(", ".join(inputs), output[0])} if inputs and len(output) == 1 and call[-1:] == [")"] else set()


def held_answers(words: list[Word]) -> list[tuple[str, str, int]]:
    """(inputs, output, line) of ``if (a === 1 && b === 2) return 3``, ``case 1: return 2`` and ``{'a': 1}``."""
    found = []
    for at, word in enumerate(words):
        if word.text == "return" and at + 1 < len(words) and (output := _literals([words[at + 1].text])):
            start = max(
                (back for back in range(max(0, at - 40), at) if words[back].text in ("if", "case", ";")), default=at
            )
            if inputs := _literals([one.text for one in words[start:at]]):
                found.append((", ".join(inputs), output[0], word.line))
        elif word.text == ":" and 0 < at < len(words) - 1:
            found += [
                (key, output, word.line)
                for key in _literals([words[at - 1].text])
                for output in _literals([words[at + 1].text])
            ]
    return found
