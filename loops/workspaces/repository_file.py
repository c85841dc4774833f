"""`agentops.toml` at the top of a repository: what it states of itself, read as the words of a stranger (SPEC X2, I7).

Nothing here takes effect: a person accepts one content of it (``loops.services.repository_files``, ADR 0070).
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from loops.engine.text.truncation import quoted, shortened
from loops.masking import known
from loops.services.submission import InvalidTask, called, clean_criteria, unstorable
from loops.tools.sandbox.network.hosts import hosts
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.sandbox.workspace_guard.protected_files import PLACEHOLDER

NAME = "agentops.toml"
LONGEST = 32 * 1024
MOST_LINES = 1_000
MOST_DOTS = 100
"""In a line: Python's parser takes a time for a key that grows with the square of its parts, 25 s for one of 64 KB."""
MOST_PROTECTED = 100
_SHOWN = 60
_LONGEST_FAULT = 300
TEXT, TEXTS = "a text in quotes", "a list of texts"
SHAPE = {
    "setup": {"command": TEXT, "hosts": TEXTS},
    "tests": {"command": TEXT},
    "files": {"protected": TEXTS},
    "criteria": {"text": TEXT, "command": TEXT},
}
"""Table -> key -> what it is. ``criteria`` is a list of tables, the others are one each."""
MANY = "criteria"
WITH_ONE_OF_OURS = "It holds a secret of this installation: take it out of the file, and out of the repository."
_AT = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)
_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]")
_KEY = re.compile(r"""\s*["']?([^\s"'=.]+)["']?\s*[=.]""")
_PATTERN = re.compile(r"[*?\[\]]")


class Unusable(Exception):
    """The file cannot be used. The sentence is for people, names line and key, and may quote the file."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What one content of the file states; ``command`` and ``tests`` are "" where it states none."""

    text: str
    command: str = ""
    hosts: tuple[str, ...] = ()
    tests: str = ""
    criteria: tuple[dict[str, str], ...] = ()
    protected: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """By which a person accepts it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def lines(self) -> Iterator[tuple[str, str]]:
        """(what, value) of all that it states, for people."""
        stated = [("Set-up command", self.command), ("Hosts of the set-up", ", ".join(self.hosts))]
        yield from ((what, value) for what, value in (*stated, ("Test command", self.tests)) if value)
        for one in self.criteria:
            yield "Criterion", " :: ".join(dict.fromkeys(filter(None, (one["text"], one["command"]))))
        yield from (("Protected", path) for path in self.protected)


def read(top: int) -> Declared | None:
    """The file in the folder that is open as ``top``; None where there is none. Raises Unusable."""
    data = _bytes(top)
    return None if data is None or data == PLACEHOLDER else parse(data)


def parse(data: bytes) -> Declared:
    """What its bytes state. Raises Unusable."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unusable(f"Line {line}: it is not UTF-8. Save it as UTF-8.") from error
    if known().is_in(text):
        raise Unusable(WITH_ONE_OF_OURS)
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise Unusable(f"It has more than {MOST_LINES:,} lines.")
    if dotted := next((number for number, line in enumerate(lines, 1) if line.count(".") > MOST_DOTS), 0):
        raise Unusable(f"Line {dotted}: it has more than {MOST_DOTS} dots.")
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise Unusable("It is nested too deep.") from error
    except ValueError as error:  # of TOML, or a number of thousands of digits
        at = _AT.fullmatch(str(error))
        where, said = (f"Line {at[2]}: ", at[1]) if at else ("", str(error))
        raise Unusable(f"{where}it is no valid TOML: {shortened(said, _LONGEST_FAULT)}.") from error
    return _Reader(text).declared(found)


def _bytes(top: int) -> bytes | None:
    try:
        descriptor = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=top)
    except FileNotFoundError:
        return None
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        why = "It is a link, and none is followed: put the file itself there." if is_link else ""
        raise Unusable(why or f"It cannot be read: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unusable("It is no ordinary file.")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LONGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > LONGEST:
        raise Unusable(f"It is larger than {LONGEST // 1024} KB.")
    return data


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks values against ``SHAPE``, and knows where in ``text`` they stand."""

    text: str

    def declared(self, found: dict[str, Any]) -> Declared:
        for table, value in found.items():
            self._check_table(table, value)
        setup, files = found.get("setup", {}), found.get("files", {})
        try:
            named = tuple(map(str, hosts(setup.get("hosts", []))))
        except ValueError as error:
            raise self._fault("setup", "hosts", f"{error}.") from error
        return Declared(
            self.text,
            setup.get("command", "").strip(),
            named,
            found.get("tests", {}).get("command", "").strip(),
            self._criteria(found.get(MANY, [])),
            self._protected(files.get("protected", [])),
        )

    def _check_table(self, table: str, value: Any) -> None:
        if table not in SHAPE:
            what = f"{quoted(table, _SHOWN)} is not a table that it may have: the tables are {', '.join(SHAPE)}."
            raise self._fault(table, "", what)
        wanted = "[[criteria]] for each of them" if table == MANY else f"a table: [{table}]"
        rows = value if table == MANY else [value]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._fault(table, "", f"{table} is {wanted}.")
        for number, row in enumerate(rows):
            for key, given in row.items():
                self._check_key(table, key, given, number)

    def _check_key(self, table: str, key: str, given: Any, number: int) -> None:
        if key not in SHAPE[table]:
            keys = ", ".join(SHAPE[table])
            what = f"{quoted(f'{table}.{key}', _SHOWN)} is not a key that it may have: {table} has {keys}."
            raise self._fault(table, key, what, number)
        texts, kind = given if isinstance(given, list) else [given], SHAPE[table][key]
        if isinstance(given, list) != (kind == TEXTS) or not all(isinstance(one, str) for one in texts):
            raise self._fault(table, key, f"{table}.{key} is {kind}.", number)
        if why := next(filter(None, map(unstorable, texts)), ""):
            raise self._fault(table, key, f"{table}.{key} {why}.", number)

    def _criteria(self, rows: list[dict[str, str]]) -> tuple[dict[str, str], ...]:
        """By the rules of those of a task, and each in a line, as forms hold them."""
        for number, row in enumerate(rows):
            for key, value in row.items():
                if "\n" in value or "\r" in value:
                    raise self._fault(MANY, key, f"criteria.{key} is one line.", number)
        try:
            return tuple(clean_criteria(rows))
        except InvalidTask as error:
            field, why = next(iter(error.errors.items()))
            number = re.search(r"\d+", field)
            place = (int(number[0]) if number else 0, field.rpartition(".")[2] if "." in field else "")
            raise self._fault(MANY, place[1], f"{called(field)} {why}.", place[0]) from error

    def _protected(self, paths: list[str]) -> tuple[str, ...]:
        if len(paths) > MOST_PROTECTED:
            raise self._fault("files", "protected", f"files.protected has more than {MOST_PROTECTED} paths.")
        return tuple(dict.fromkeys(map(self._path, paths)))

    def _path(self, given: str) -> str:
        try:
            path = relative(given)
        except PathRefused as error:
            raise self._fault("files", "protected", f"files.protected: {error}.") from error
        why = "is a pattern: write the path of one file or folder" if _PATTERN.search(path) else ""
        if path == "." or path.split("/")[0].casefold() == ".git":
            why = "is not allowed: write the path of a file or folder inside the workspace"
        if why:
            raise self._fault("files", "protected", f"files.protected: {quoted(given, _SHOWN)} {why}.")
        return path

    def _fault(self, table: str, key: str, what: str, number: int = 0) -> Unusable:
        return Unusable(f"Line {self._line(table, key, number)}: {what}")

    def _line(self, table: str, key: str, number: int) -> int:
        """Where the key stands, or its table; 1 where it is written in a way in which nobody finds it."""
        here, seen, at = "", -1, 0
        for line, words in enumerate(self.text.split("\n"), 1):
            if header := _HEADER.match(words):
                here = header[1].strip(" \t\"'")
                seen += here == table
                if here == table and seen == number and not at:
                    at = line
                if here == f"{table}.{key}":
                    return line
            elif (named := _KEY.match(words)) and here == "" and named[1] == table:
                at = at or line
            elif named and here == table and seen == number and named[1] == key:
                return line
        return at or 1
