"""Signs in JavaScript and TypeScript: it ends the process, changes its runner or process, or behaves otherwise under
test. By words, so that names which are put together are a sign by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from loops.engine.state.remark import Level
from loops.engine.text.truncation import shortened
from loops.tools.suspicion.changes import Change
from loops.tools.suspicion.javascript import Word
from loops.tools.suspicion.signs import Sign

NAMED = 80
_NEAR = 12
"""Words that belong to one expression, or nearly."""
_ENDS = {("process", "exit"), ("process", "reallyExit"), ("process", "abort"), ("process", "kill")}
_ENDING = frozenset({"exit", "reallyExit", "abort", "kill"})
_TAMPERS = {
    ("require", "cache"), ("process", "binding"), ("process", "_linkedBinding"), ("process", "dlopen"),
    ("process", "send"), ("process", "_getActiveHandles"), ("process", "_getActiveRequests"), ("Module", "_load"),
    ("Module", "_resolveFilename"), ("Module", "_extensions"), ("Error", "prepareStackTrace"), ("expect", "extend"),
    ("jest", "mock"), ("jest", "doMock"), ("jest", "setMock"), ("jest", "spyOn"), ("jest", "replaceProperty"),
    ("jest", "unstable_mockModule"), ("vi", "mock"), ("vi", "doMock"), ("vi", "spyOn"), ("vi", "stubGlobal"),
}  # fmt: skip
_SEARCHES = frozenset({"isSocket", "parentPort", "registerHooks"})
"""By which the descriptors, or the channel, of a runner are found."""
_REPLACED = frozenset({"globalThis", "global", "assert", "expect", "Date", "Math", "JSON", "Promise", "console"})
_SHARED = frozenset({"Object", "Array", "Function", "String", "Number", "Promise"})
_WHOLE = frozenset({"globalThis", "global", "expect", "assert", "process", "jest"})
"""What nobody hands on, or writes into, but to reach those who did not ask."""
_VARIABLES = frozenset({
    "NODE_TEST_CONTEXT", "JEST_WORKER_ID", "VITEST_WORKER_ID", "VITEST_POOL_ID", "PYTEST_CURRENT_TEST",
    "AGENTOPS_TEST_REPORT", "AGENTOPS_TEST_SESSION",
})  # fmt: skip
_OF_RUNNERS = ("JEST_", "VITEST", "__vitest", "__VITEST")
_MODES = frozenset({"NODE_ENV", "MODE"})
_GIVEN = frozenset({"jest", "vi", "vitest", "expect", "describe", "jasmine", "beforeEach", "afterEach"})
"""Names that runners give to tests, and code of no test has for nothing else."""
_TESTS = frozenset({"it", "test"})
_MATCHES = frozenset({"includes", "indexOf", "match", "matchAll", "search", "split"})
_WRITE = frozenset({"assign", "defineProperty", "defineProperties", "setPrototypeOf", "set"})
_COMPARED = frozenset({"assert", "jest", "mocha", "tape", "ava", "chai"})
_TEST_RUNNERS = frozenset(
    {"jest", "vitest", "mocha", "tape", "ava", "node:test", "@jest", "@vitest", "chai", "jasmine"}
)
_ONLY_SETTINGS = frozenset({"vitest/config", "jest/config"})
_MADE_BY = {("vm", "runInThisContext"), ("vm", "runInNewContext"), ("vm", "runInContext"), ("vm", "compileFunction"),
            ("vm", "Script")}  # fmt: skip


def signs(change: Change, words: list[Word]) -> Iterator[Sign]:
    """Of a library all of them; of a test file what ends the run it is a part of, or speaks in its name."""
    texts = [word.text for word in words]
    named = set() if change.is_test else {name for at in range(len(texts)) for name in _names_of(texts, at)}
    for at, word in enumerate(words):
        yield from ends_process(change, texts, at, word.line)
        yield from names_variable(change, texts, at, word.line)
        if not change.is_test:
            yield from knows_tests(texts, at, word.line)
            yield from tampers(texts, at, word.line)
            yield from patches_runner(texts, at, word.line, named)
            yield from reaches_process(change, texts, at, word.line)
            yield from imports_runner(change, texts, at, word.line)
            yield from makes_code(change, texts, at, word.line)


def _at(texts: list[str], at: int) -> str:
    return texts[at] if 0 <= at < len(texts) else ""


def _is_string(text: str) -> bool:
    return text[:1] in ("'", '"', "`") and bool(text)


def _plain(text: str) -> str:
    return text.strip("\"'`")


def _member(texts: list[str], at: int) -> tuple[str, str]:
    """(name, what follows it) of ``a.name`` and ``a["name"]``; nothing where the name is put together."""
    if _at(texts, at + 1) == ".":
        return _at(texts, at + 2), _at(texts, at + 3)
    if _at(texts, at + 1) == "[" and _at(texts, at + 3) == "]" and _is_string(_at(texts, at + 2)):
        return _plain(texts[at + 2]), _at(texts, at + 4)
    return "", ""


def ends_process(change: Change, texts: list[str], at: int, line: int) -> Iterator[Sign]:
    """Of an exit with a number other than 0, and of a program, it is only good to know."""
    name, after = _member(texts, at)
    if (texts[at], name) not in _ENDS:
        return
    number = _at(texts, texts.index(after, at + 2) + 1) if after == "(" else ""
    fails = number.isdigit() and number != "0"
    harmless = fails or (name in ("exit", "kill") and change.is_apart and not change.is_test)
    level = Level.TO_KNOW if harmless else Level.SUSPICIOUS
    text = f"{texts[at]}.{name} ends the process."
    yield Sign("process_end", f"end {texts[at]}.{name}", text, line, level)


def names_variable(change: Change, texts: list[str], at: int, line: int) -> Iterator[Sign]:
    said = _plain(texts[at])
    if said in _VARIABLES or (said.startswith(_OF_RUNNERS) and not change.is_test):
        text = f"{shortened(said, NAMED)} is set where tests run: the code may behave otherwise there."
        yield Sign("knows_tests", f"variable {said}", text, line)


def knows_tests(texts: list[str], at: int, line: int) -> Iterator[Sign]:
    if how := _how(texts, at):
        text = f"The code finds out by {how} whether it is under test, so it may behave otherwise there."
        yield Sign("knows_tests", f"knows {how}", text, line)


def _how(texts: list[str], at: int) -> str:
    word, after = texts[at], _at(texts, at + 1)
    if _plain(word) in _MODES and "test" in map(_plain, texts[max(at - 3, 0) : at + 5]):
        return f"its {_plain(word)}"
    if word == "typeof" and (
        after in _GIVEN or (after in ("it", "test") and _plain(_at(texts, at + 3)) == "undefined")
    ):
        return "a name that runners give"
    if word in ("globalThis", "global") and (name := _member(texts, at)[0]) in _GIVEN | _TESTS:
        return f"{word}.{name}"
    if _is_string(word) and _plain(word) in _GIVEN - {"vi"} and after == "in":  # a language, too
        return "a name that runners give"
    if texts[at : at + 5] == ["import", ".", "meta", ".", "vitest"]:
        return "import.meta.vitest"
    return _by_caller(texts, at)


def _by_caller(texts: list[str], at: int) -> str:
    """Who started it, or called it."""
    if texts[at] == "stack" and _at(texts, at - 1) == ".":
        made = texts[max(at - 4, 0) : at - 1]
        if _at(texts, at + 2) in _MATCHES or (made[:1] == ["Error"] and made[-1:] == [")"]):
            return "the stack of its callers"
    if texts[at] == "argv" and any(
        "test" in one or "jest" in one for one in filter(_is_string, texts[at : at + _NEAR])
    ):
        return "the command line"
    if (texts[at], _at(texts, at + 2)) in {("require", "main"), ("module", "parent")} and _at(texts, at + 3) == ".":
        return "the module that began"
    return ""


def tampers(texts: list[str], at: int, line: int) -> Iterator[Sign]:
    word, (name, after) = texts[at], _member(texts, at)
    if (word, name) in _TAMPERS:
        yield Sign("tampering", f"looks {name}", f"{word}.{name} changes what others load, or find.", line)
    elif word in _SEARCHES or _plain(word).startswith("$$jest"):
        text = f"{shortened(_plain(word), NAMED)} leads to what the test runner keeps for itself."
        yield Sign("tampering", f"searches {_plain(word)}", text, line)
    elif word in _REPLACED and after == "=" and _at(texts, at - 1) != ".":
        text = f"{word}.{name} is replaced for the whole process, for tests as well."
        yield Sign("tampering", f"patch {word}.{name}", text, line)
    elif name == "prototype" and word in _SHARED and _at(texts, at + 5) == "=":
        text = f"{word}.prototype is written to, for tests as well."
        yield Sign("tampering", f"prototype {word}", text, line)


def patches_runner(texts: list[str], at: int, line: int, named: set[str]) -> Iterator[Sign]:
    """``require("assert").equal = …``, by a name of it, and what ``Object`` writes into it."""
    required = texts[max(at - 3, 0) : at - 1] == ["require", "("] and texts[at] == ")" and _compares(texts[at - 1])
    if _is_written(texts, at, texts[at] in named or required, named):
        yield Sign("tampering", "patch a runner", "What tests compare with is replaced for the whole process.", line)


def _is_written(texts: list[str], at: int, is_runner: bool, runners: set[str]) -> bool:
    after = [*texts[at + 1 : at + 6], "", "", "", "", ""]
    if is_runner and (after[0], after[2]) == (".", "="):
        return True
    if is_runner and (after[0], after[2], after[3]) == ("[", "]", "="):
        return True
    writes = texts[at] in ("Object", "Reflect") and after[1] in _WRITE and after[2] == "("
    shared = after[3] in _SHARED if after[4] == "." else after[3] in _WHOLE
    return writes and (shared or after[3] in runners)


def _names_of(texts: list[str], at: int) -> Iterator[str]:
    """By which the runner that is required, or imported, here is known."""
    if not _is_string(texts[at]) or not _compares(texts[at]):
        return
    if texts[at - 2 : at] == ["require", "("] and at > 3 and texts[at - 3] == "=":
        yield texts[at - 4]
    elif at > 1 and texts[at - 1] == "from":
        yield texts[at - 2]


def _compares(text: str) -> bool:
    name = _plain(text).removesuffix("/strict")
    return name.removeprefix("node:") in _COMPARED or _root(name) in _TEST_RUNNERS


def reaches_process(change: Change, texts: list[str], at: int, line: int) -> Iterator[Sign]:
    """What is done to the process, or to all of it, by a name that is not said."""
    level = Level.TO_KNOW if change.is_apart else Level.SUSPICIOUS
    if _hides_a_name(texts, at):
        text = "A name is put together, or found out while it runs: nobody reads here what is asked for."
        yield Sign("tampering", "hidden name", text, line, level)
    elif _renames(texts, at):
        word = _plain(texts[at])
        yield Sign("tampering", f"renamed {word}", f"{shortened(word, NAMED)} is used by another name.", line, level)
    elif texts[at] == "writeSync" and _at(texts, at + 2) not in ("1", "2"):
        text = "writeSync writes to whatever is open in the process, what a test runner reports to as well."
        yield Sign("tampering", "writes to a descriptor", text, line, level)


def _hides_a_name(texts: list[str], at: int) -> bool:
    """``process[name]``, and ``anything["ex" + "it"]``."""
    if texts[at] in _WHOLE and _at(texts, at + 1) == "[" and _at(texts, at - 1) != ".":
        return not _member(texts, at)[0]
    joined = _is_string(_at(texts, at + 1)) and _at(texts, at + 2) == "+" and _is_string(_at(texts, at + 3))
    return texts[at] == "[" and joined and _at(texts, at + 4) == "]"


def _renames(texts: list[str], at: int) -> bool:
    word, before, after = texts[at], _at(texts, at - 1), _at(texts, at + 1)
    if _is_string(word):
        from_it = before == "from" or texts[max(at - 2, 0) : at] == ["require", "("]
        back = 2 if before == "from" else 4
        return from_it and _plain(word) in ("process", "node:process") and _takes_an_end(texts, at - back)
    if word not in _WHOLE - {"assert"}:
        return False
    if before == "=" and after not in (".", "[", "(", "?"):
        return word != "process" or _at(texts, at - 2) != "}" or _takes_an_end(texts, at - 2)
    return word in ("process", "globalThis") and before in ("(", ",") and after in (")", ",")


def _takes_an_end(texts: list[str], closing: int) -> bool:
    """``{ exit } = process``: what stands in the brackets that end here."""
    if _at(texts, closing) != "}":
        return False
    inside = texts[max(closing - _NEAR * 3, 0) : closing]
    opening = max((at for at, text in enumerate(inside) if text == "{"), default=0)
    return bool(_ENDING & {*inside[opening:]})


def imports_runner(change: Change, texts: list[str], at: int, line: int) -> Iterator[Sign]:
    word, before = texts[at], texts[max(at - 2, 0) : at]
    name = _plain(word) if _is_string(word) else ""
    is_import = before[-1:] in (["from"], ["import"]) or before in (["require", "("], ["import", "("])
    if not name or not is_import or _root(name) not in _TEST_RUNNERS or name in _ONLY_SETTINGS:
        return
    if not _only_types(texts, at):
        level = Level.TO_KNOW if change.is_apart else Level.SUSPICIOUS
        text = f"Code that is no test imports {shortened(name, NAMED)}, by which it could change what tests find."
        yield Sign("tampering", f"import {_root(name)}", text, line, level)


def _root(name: str) -> str:
    return name.partition("/")[0]


def _only_types(texts: list[str], at: int) -> bool:
    start = max((back for back in range(max(at - 3 * _NEAR, 0), at) if texts[back] == "import"), default=at)
    return _at(texts, start + 1) == "type"


def makes_code(change: Change, texts: list[str], at: int, line: int) -> Iterator[Sign]:
    word, before, after = texts[at], _at(texts, at - 1), _at(texts, at + 1)
    evaluates = word == "eval" and before != "." and after != ":"
    constructs = (word == "Function" and after == "(" and before != ".") or (
        word == "constructor" and before == "." and after == "(" and _is_string(_at(texts, at + 2))
    )
    loads = (
        (word, _member(texts, at)[0]) in _MADE_BY or word == "_compile" or _plain(word).startswith("data:text/javas")
    )
    if evaluates or constructs or loads:
        text = "Code that is made while it runs is executed: nobody reads it here."
        level = Level.TO_KNOW if change.is_apart else Level.SUSPICIOUS
        yield Sign("made_code", "made code", text, line, level)
