"""Which functions of a run are made to raise, over all that it changed, and the files in which they do (SPEC X4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from loops.engine.text.truncation import shortened
from loops.tools.canary.functions import Function, Source, functions, names_used, read
from loops.tools.canary.insertions import broken

MOST_NAMED, LONGEST_NAME = 20, 200
MOST_RAISING = 5_000
"""Functions. Whoever hides one behind so many others has it work in the canary, which contradicts the check."""
MOST_BYTES = 8_000_000
"""Of all files together: edited ones are read before new ones, small ones before large ones."""


@dataclass(frozen=True, slots=True)
class Canary:
    """``files`` are those with functions that raise; ``functions`` name the first of ``count`` for people."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """One file: functions that are other than before, and those that are new."""

    source: Source
    edited: tuple[Function, ...]
    new: tuple[Function, ...]


def canary(changes: Mapping[str, tuple[bytes | None, bytes | None]], tests: Mapping[str, bytes]) -> Canary:
    """The changes without tests and their settings, each before and after, and the sources of the tests that judge."""
    found = changed(changes)
    raising = first_of(chosen(found, tests), MOST_RAISING)
    made = {path: broken(found[path].source, several) for path, several in raising.items()}
    files = {path: data for path, data in made.items() if data is not None}
    names = dict.fromkeys(f"{path}: {one.name}" for path in files for one in raising[path])
    shown = tuple(shortened(name, LONGEST_NAME) for name in list(names)[:MOST_NAMED])
    return Canary(files, shown, len(names))


def chosen(found: Mapping[str, Changed], tests: Mapping[str, bytes]) -> dict[str, tuple[Function, ...]]:
    """Functions that were there and are other now; where there are none, new ones that tests name. All others stay:
    what a run put in the way of its tests has to work here too, else the canary would fail by it and prove it."""
    edited = {path: one.edited for path, one in found.items() if one.edited}
    if edited:
        return edited
    sources = [read(tests[path]) for path in within_bounds({path: len(data) for path, data in tests.items()})]
    used = frozenset[str]().union(*(names_used(one.tree) for one in sources if one))
    named = {path: tuple(new for new in one.new if used & {*new.name.split(".")}) for path, one in found.items()}
    return {path: several for path, several in named.items() if several}


def first_of(several: Mapping[str, tuple[Function, ...]], most: int) -> dict[str, tuple[Function, ...]]:
    kept: dict[str, tuple[Function, ...]] = {}
    for path, ones in several.items():
        if most > 0:
            kept[path] = ones[:most]
            most -= len(ones)
    return kept


def changed(changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> dict[str, Changed]:
    states = {path: both for path, both in changes.items() if path.endswith(".py") and both[0] != both[1]}
    sizes = {path: len(before or b"") + len(after or b"") for path, (before, after) in states.items()}
    edited = {path for path, (before, after) in states.items() if before is not None}
    read_first = within_bounds(sizes, edited)
    found = {path: (read(states[path][0]), read(states[path][1])) for path in read_first}
    return {path: compared(before, after) for path, (before, after) in sorted(found.items()) if after}


def within_bounds(sizes: Mapping[str, int], first: Collection[str] = ()) -> Iterator[str]:
    """Paths until their files are too much together."""
    left = MOST_BYTES
    for path in sorted(sizes, key=lambda path: (path not in first, sizes[path], path)):
        left -= sizes[path]
        if left >= 0:
            yield path


def compared(before: Source | None, after: Source) -> Changed:
    """Of a name that is defined more than once, such as a property, the definitions that were not there."""
    old = list(functions(before.tree)) if before else []
    names, codes = {one.name for one in old}, Counter((one.name, one.code) for one in old)
    edited, new = [], []
    for one in functions(after.tree):
        if one.name not in names:
            new.append(one)
        elif codes[one.name, one.code]:
            codes[one.name, one.code] -= 1
        else:
            edited.append(one)
    return Changed(after, tuple(edited), tuple(new))
