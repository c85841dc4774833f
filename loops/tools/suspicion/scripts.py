"""Scripts of a package, and targets of a Makefile, by which the command of a criterion runs its tests (SPEC L2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loops.tools.runners import simple_commands
from loops.tools.suspicion.changes import whole_text

PACKAGE = "package.json"
MAKEFILES = frozenset({"Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"})
FILES = (PACKAGE, *sorted(MAKEFILES))
"""At the top of a workspace, where commands begin."""
TESTING = re.compile(r"(?:pre|post)?(?:test|check|verify)\b.{0,100}", re.DOTALL)
_STARTED_BY = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset({PACKAGE})),
    **dict.fromkeys(("make", "gmake", "just"), MAKEFILES),
}
_TARGET = re.compile(r"^([\w.-]{1,100})[^\n:=]{0,300}:(?!=)", re.MULTILINE)
_MENTIONED = re.compile(r"[\w.:-]{1,100}")
_SHORT = {"t": "test", "tst": "test"}
"""As npm lets people write them."""


def named(commands: Sequence[str]) -> frozenset[str]:
    """The words of the criteria's commands, and their paths without what only leads there."""
    words = {word for command in commands for words in simple_commands(command) for word in words}
    return frozenset(words | {word.removeprefix("./").partition("::")[0] for word in words})


def started(files: Mapping[str, bytes], commands: Sequence[str]) -> Iterator[str]:
    """What the commands run by names that stand in ``files``, which are as they were when the run began."""
    words = named(commands)
    words |= {_SHORT[word] for word in words & _SHORT.keys()}
    words |= {f"{when}{word}" for word in words for when in ("pre", "post")}
    known = frozenset[str]().union(*(_STARTED_BY[word] for word in words & _STARTED_BY.keys()))
    for path in files.keys() & known:
        text = whole_text(files[path])
        table = in_package(loaded(text)) if path == PACKAGE else targets(text)
        yield from (str(table[name]) for name in sorted(reached(table, words & table.keys())))


def loaded(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def in_package(package: Mapping[str, Any]) -> Mapping[str, Any]:
    found = package.get("scripts")
    return found if isinstance(found, dict) else {}


def targets(text: str) -> dict[str, str]:
    found, starts = {}, list(_TARGET.finditer(text))
    for at, start in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        found[start[1]] = text[start.start() : end].strip()
    return found


def is_for_tests(name: str, named: frozenset[str]) -> bool:
    return TESTING.fullmatch(name) is not None or name in named


def by_which_tests_run(table: Mapping[str, Any], named: frozenset[str]) -> frozenset[str]:
    """By their names, and those that these mention."""
    return reached(table, {name for name in table if is_for_tests(name, named)})


def reached(table: Mapping[str, Any], first: frozenset[str] | set[str]) -> frozenset[str]:
    """Those names of the table, and those that these mention."""
    waiting, found = list(first), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += table.keys() & {*_MENTIONED.findall(str(table[name]))}
    return frozenset(found)
