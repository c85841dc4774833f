"""What git leaves out by the ``.gitignore`` files of a folder (gitignore(5)): one reading for commits and searches.

Whoever wrote them may be hostile: only so much of them is read, every pattern is matched in linear time (RE2), and
whoever asks gives the time that all of it may take. Names are bytes to git, so they are matched byte by byte.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import re2  # type: ignore[import-untyped]

from loops.engine.text.patterns import BadPattern, Pattern, regular_expression

IGNORE, EXCLUDE = ".gitignore", ".git/info/exclude"
MOST_BYTES = 64 * 1024
"""Of one file of rules; a longer one is not read at all."""
MOST_RULES, LONGEST_RULE = 5_000, 1_000
"""Of all files together, and characters of one; what is beyond leaves nothing out."""
_IN_A_GROUP = 100
_CLASS = re.compile(r"\[([!^]?)(\]?(?:\\.|\[:\w+:\]|[^\]\\])*)\]", re.DOTALL)
_IN_CLASS = re.compile(r"\[:(\w+):\]|(\\?.)-(\\?[^\]])|\\?(.)", re.DOTALL)
_SPACES = re.compile(r"(?:^|(?<=[^\\]))((?:\\\\)*)(\\ )? *$")
_POSIX = frozenset(
    {"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"}
)

Read = Callable[[str], bytes]
"""The bytes of a file of rules in the folder by its path; b"" where there is none. Raises TooLong."""


class TooLong(Exception):
    """The rules are more than is read here, or took more time than they were given."""


@dataclass(frozen=True)
class _Rule:
    expression: str
    leaves_out: bool

    @cached_property
    def pattern(self) -> Pattern:
        return regular_expression(self.expression)


@dataclass(frozen=True, slots=True)
class _Group:
    """Rules that stand next to each other: most paths fit none of them, which one look tells."""

    rules: tuple[_Rule, ...]
    any: Pattern


@dataclass(frozen=True, slots=True)
class _File:
    """One file of rules. ``prefix``: characters of a path before what its rules speak of."""

    prefix: int
    groups: tuple[_Group, ...]

    def says(self, path: str) -> bool | None:
        """Does its last rule that fits leave the path out? None where none fits."""
        named = path[self.prefix :]
        for group in reversed(self.groups):
            if group.any.fullmatch(named):
                return next(rule.leaves_out for rule in reversed(group.rules) if rule.pattern.fullmatch(named))
        return None


class GitIgnore:
    """The rules of one folder, each file read when the first path below it is asked about."""

    def __init__(self, read: Read, *, seconds: float = inf) -> None:
        self._read, self._seconds_left, self._rules_left = read, seconds, MOST_RULES
        self._below: dict[str, tuple[_File, ...]] = {}
        self._folders: dict[str, bool] = {"": False}
        self.unread: list[str] = []
        """Files of rules of which not all was read."""

    def ignores(self, path: str, *, is_folder: bool = False) -> bool:
        """Does git leave it out while it is in no commit? All that lies in a folder that is left out is, too. Raises
        TooLong when the time is over."""
        if is_folder and (known := self._folders.get(path)) is not None:
            return known
        parent = path.rpartition("/")[0]
        found = (bool(parent) and self.ignores(parent, is_folder=True)) or self._says(path, parent, is_folder)
        if is_folder:
            self._folders[path] = found
        return found

    def _says(self, path: str, parent: str, is_folder: bool) -> bool:
        began = time.monotonic()
        named = os.fsencode(path).decode("latin-1") + ("/" if is_folder else "")
        said = (file.says(named) for file in self._files(parent))
        found = next((verdict for verdict in said if verdict is not None), False)
        self._seconds_left -= time.monotonic() - began
        if self._seconds_left < 0:
            raise TooLong("the rules of .gitignore take too long")
        return found

    def _files(self, folder: str) -> tuple[_File, ...]:
        """Those that speak of what lies in ``folder``, the nearest first."""
        if (known := self._below.get(folder)) is not None:
            return known
        above = self._files(folder.rpartition("/")[0]) if folder else tuple(self._parsed(EXCLUDE, 0))
        prefix = len(os.fsencode(folder)) + 1 if folder else 0
        own = self._parsed(f"{folder}/{IGNORE}" if folder else IGNORE, prefix)
        self._below[folder] = found = (*own, *above)
        return found

    def _parsed(self, path: str, prefix: int) -> Iterator[_File]:
        try:
            text = self._read(path).removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        except TooLong:
            text = ""
            self.unread.append(path)
        lines = [line.removesuffix("\r") for line in text.split("\n") if line and not line.startswith("#")]
        if len(lines) > self._rules_left or any(len(line) > LONGEST_RULE for line in lines):
            self.unread.append(path)
        lines = [line for line in lines[: self._rules_left] if len(line) <= LONGEST_RULE]
        self._rules_left -= len(lines)
        rules = [rule for line in lines if (rule := _rule(line))]
        groups = [rules[at : at + _IN_A_GROUP] for at in range(0, len(rules), _IN_A_GROUP)]
        if groups:
            yield _File(prefix, tuple(made for group in groups for made in _grouped(group)))


def _grouped(rules: Sequence[_Rule]) -> Iterator[_Group]:
    """As few groups as RE2 takes; a rule that it does not take alone is none."""
    try:
        yield _Group(tuple(rules), regular_expression("|".join(f"(?:{rule.expression})" for rule in rules)))
    except BadPattern:
        half = len(rules) // 2
        if half:
            yield from _grouped(rules[:half])
            yield from _grouped(rules[half:])


def _rule(line: str) -> _Rule | None:
    """None for a line that fits nothing."""
    pattern = _SPACES.sub(r"\1\2", line)
    leaves_out = not pattern.startswith("!")
    pattern = pattern if leaves_out else pattern[1:]
    only_folders, pattern = pattern.endswith("/"), pattern.removesuffix("/")
    anchored = "/" in pattern
    expression = _translated(pattern.removeprefix("/"), anchored)
    if not expression:
        return None
    place = "" if anchored else "(?:.*/)?"
    return _Rule(f"(?s:{place}{expression}{'/' if only_folders else '/?'})", leaves_out)


def _translated(pattern: str, anchored: bool) -> str:
    """The pattern as a regular expression of RE2; "" for one that fits nothing."""
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        stars = len(pattern) - at - len(pattern[at:].lstrip("*"))
        if stars:
            begins, ends = at == 0 or pattern[at - 1] == "/", at + stars == len(pattern)
            crosses = anchored and stars >= 2 and begins and (ends or pattern[at + stars] == "/")
            pieces.append(("[^/].*" if ends else "(?:.*/)?") if crosses else "[^/]*")
            at += stars + (crosses and not ends)
        elif sign == "[":
            found = _CLASS.match(pattern, at)
            members = _members(found[2]) if found else None
            if found is None or members is None or not (members or found[1]):
                return ""
            pieces.append(f"[^/{members}]" if found[1] else f"[{members}]")
            at = found.end()
        elif sign == "\\":
            if at + 1 == len(pattern):
                return ""
            pieces.append(str(re2.escape(pattern[at + 1])))
            at += 2
        else:
            pieces.append("[^/]" if sign == "?" else str(re2.escape(sign)))
            at += 1
    return "".join(pieces)


def _members(inside: str) -> str | None:
    """Of a class in brackets; None where it names one that is not known."""
    pieces: list[str] = []
    for found in _IN_CLASS.finditer(inside):
        name, first, last, single = found.groups()
        if name:
            if name not in _POSIX:
                return None
            pieces.append(f"[:{name}:]")
            continue
        low, high = (first[-1], last[-1]) if first else (single, single)
        if low <= high:
            ranges = [(low, high)] if not low <= "/" <= high else [(low, "."), ("0", high)]  # no class fits a slash
            pieces += [f"\\x{{{ord(one):x}}}-\\x{{{ord(other):x}}}" for one, other in ranges if one <= other]
    return "".join(pieces)
