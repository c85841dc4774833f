"""Does a command start a test runner, and which documents does it name? Read off its words (SPEC G1). Pure.

A program that only prints what runners print starts none: ``echo "14 passed in 0.1s"`` counts nothing. Who wants to lie
can write a program called pytest all the same, so what a command reports stays weak evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

LONGEST = 100_000
"""Characters of a command that are looked at: a tool takes a longer one as a word of an argv alone."""
DEEPEST = 3
"""Shells within shells."""
MOST_WORDS = 64
"""Of one simple command: so far on stands its program."""
MOST_DOCUMENTS = 16

RUNNERS = frozenset(
    {"pytest", "py.test", "nose2", "tox", "nox", "jest", "vitest", "mocha", "gotestsum", "rspec", "phpunit"}
)
SUBCOMMANDS = {
    "go": {"test"},
    "cargo": {"test", "t", "nextest"},
    "npm": {"test", "t", "tst", "it"},
    "pnpm": {"test", "t"},
    "yarn": {"test"},
    "bun": {"test"},
    "deno": {"test"},
    "composer": {"test"},
    "make": {"test", "check"},
    "mvn": {"test", "verify"},
    "mvnw": {"test", "verify"},
    "gradle": {"test", "check"},
    "gradlew": {"test", "check"},
    "node": {"--test"},
}
"""Programs that run tests when this word is among theirs, and the script ``test`` of a package when told to run it."""
SCRIPTS = frozenset({"npm", "pnpm", "yarn", "bun"})
PREFIXES = (
    SCRIPTS
    | {"env", "time", "timeout", "nice", "ionice", "nohup", "stdbuf", "exec", "command", "sudo", "run", "dlx", "--"}
    | {"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "bundle", "npx", "pnpx", "bunx", "coverage"}
    | {"{", "!", "if", "then", "else", "do", "while", "until"}
)
"""Words that only lead to the program that is meant; options, numbers and assignments between them do too."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
MODULES = frozenset({"pytest", "unittest", "nose2", "tox", "nox"})
TAKE_A_VALUE = frozenset({"-C", "--prefix", "--cwd", "--directory", "--manifest-path", "-W", "-X"})
"""Options whose value is a word of its own and would be taken for the program, or for what it is told to do."""
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?")
_SHELL_LINE = re.compile(r"-[a-z]*c")
_PASSED_OVER = re.compile(r"-.*|\w+=.*|\d+(?:\.\d+)?[smhd]?", re.DOTALL)
_DOCUMENT = re.compile(r"[\w./@+ -]{1,300}\.(?:xml|json)")


def is_test_run(command: str | Sequence[str]) -> bool:
    """Of a shell line, or of an argv. A line that makes functions or aliases does not say what it really starts."""
    return _starts_runner(command, DEEPEST, [])


def not_looked_at(command: str | Sequence[str]) -> str:
    """Where a command that is no test run may start one all the same, in words; "" where all of it was looked at."""
    missed: list[str] = []
    found = _starts_runner(command, DEEPEST, missed)
    return "" if found else "; ".join(dict.fromkeys(missed))


def documents(command: str | Sequence[str]) -> tuple[str, ...]:
    """The first ``MOST_DOCUMENTS`` paths of ``named``."""
    return named(command)[:MOST_DOCUMENTS]


def named(command: str | Sequence[str]) -> tuple[str, ...]:
    """Paths of XML and JSON files that the words name, such as ``--junitxml=build/report.xml``; whoever reads them
    checks where they lead."""
    words = chain.from_iterable(simple_commands(command)) if isinstance(command, str) else command
    found = (part for word in words for part in (word, word.partition("=")[2]) if _DOCUMENT.fullmatch(part))
    return tuple(dict.fromkeys(found))


def _starts_runner(command: str | Sequence[str], depth: int, missed: list[str]) -> bool:
    """``missed`` learns where a bound ended the look."""
    if not isinstance(command, str):
        return _runs(list(command), depth, missed)
    if len(command) > LONGEST:
        missed.append(f"what follows the first {LONGEST:,} characters of a line")
    commands = list(simple_commands(command))
    return not any(_defines(words) for words in commands) and any(_runs(words, depth, missed) for words in commands)


def _defines(words: list[str]) -> bool:
    return words[:1] in (["alias"], ["function"])


def _runs(whole: list[str], depth: int, missed: list[str]) -> bool:
    """One simple command: passes over what only leads to the program, then looks at the program."""
    words = [word for before, word in pairwise(("", *whole[:MOST_WORDS])) if before not in TAKE_A_VALUE]
    for at, word in enumerate(words):
        name, rest = word.rpartition("/")[2], words[at + 1 :]
        if _is_runner(name, rest):
            return True
        if name in SHELLS:
            line = next((after for option, after in pairwise(rest) if _SHELL_LINE.fullmatch(option)), "")
            if not depth and line:
                missed.append(f"what is in more than {DEEPEST} shells within one another")
            return depth > 0 and _starts_runner(line, depth - 1, missed)
        if name not in PREFIXES and not (at and _PASSED_OVER.fullmatch(word)) and "=" not in word:
            return False
    if len(whole) > MOST_WORDS:
        missed.append(f"what follows the first {MOST_WORDS} words of a command, none of them a program")
    return False


def _is_runner(name: str, rest: list[str]) -> bool:
    if _PYTHON.fullmatch(name):
        return _python_runs(rest)
    if name == "coverage":
        return rest[:1] == ["run"] and _python_runs(rest[1:])
    if name in SCRIPTS and rest[:1] == ["run"]:
        return bool(rest[1:]) and rest[1].partition(":")[0] == "test"
    told = [word for word in rest if not word.startswith("-") or word == "--test"]
    return name in RUNNERS or (bool(told) and told[0] in SUBCOMMANDS.get(name, ()))


def _python_runs(words: list[str]) -> bool:
    """``python -W error -m pytest -q``, ``python manage.py test``."""
    for at, word in enumerate(words):
        if word == "-m":
            module = words[at + 1] if at + 1 < len(words) else ""
            return module in MODULES or (module == "coverage" and _is_runner(module, words[at + 2 :]))
        if not word.startswith("-"):
            return word.rpartition("/")[2] == "manage.py" and words[at + 1 : at + 2] == ["test"]
    return False


# --- the words of a shell line ----------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r]+|\\\n|\#[^\n]*)
    | (?P<redirect>\d*(?:<<<|<<-?|[<>]{1,2})(?:&[\d-]+)?)
    | (?P<function>\([ \t]*\))
    | (?P<cut>[;&|()\n`]+)
    | (?P<word>(?:[^\s;&|()`<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*+")+)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*+)"|\\(.)""", re.DOTALL)


def simple_commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a shell line, without quotes, redirections, comments and here-documents; one that makes a
    function begins with that word. What cannot be read ends it."""
    line, at = line[:LONGEST], 0
    words: list[str] = []
    target, delimiters = "", list[str]()
    while at < len(line) and (token := _TOKEN.match(line, at)):
        at, raw = token.end(), token[0]
        match token.lastgroup:
            case "redirect":
                target = "" if "&" in raw else raw.lstrip("0123456789")
            case "word" if target:
                delimiters += [_plain(raw)] if target in ("<<", "<<-") else []
                target = ""
            case "word":
                words.append(_plain(raw))
            case "function":
                words.insert(0, "function")
            case "cut":
                yield words
                words = []
                if "\n" in raw:
                    at, delimiters = _after_documents(line, at, delimiters), []
    yield words


def _after_documents(line: str, at: int, delimiters: list[str]) -> int:
    """Where the line goes on behind the here-documents that it began; its end where one of them is not closed."""
    for delimiter in delimiters:
        closed = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(line, at)
        if closed is None:
            return len(line)
        at = closed.end()
    return at


def _plain(word: str) -> str:
    return _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or quoted[3] or "", word)
