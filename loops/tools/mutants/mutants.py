"""A few mutants of the lines that a run changed, to try tests on that it wrote (mutation testing, SPEC X4)."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from loops.engine.text.truncation import shortened
from loops.tools.canary.canary import compared
from loops.tools.canary.functions import Source, parsed, read
from loops.tools.canary.insertions import Edits
from loops.tools.mutants.changed_lines import changed_lines
from loops.tools.mutants.operators import Edit, Kind, Operators
from loops.tools.mutants.places import is_test, running, tells_types
from loops.tools.suspicion.changes import is_in_tests

LARGEST = 120_000
"""Bytes of a file that is mutated: few people write larger ones."""
MOST_BYTES = 300_000
"""Of all files together, before and after; small ones come first."""
MOST_FUNCTIONS, MOST_OF_A_FUNCTION = 100, 100
"""Functions of a file, and candidates of a function; the first ones."""
MOST_UNFIT = 10
"""Candidates that would be no Python: where nesting is as deep as Python reads it, for one."""
LONGEST_SIDE = 80
"""Characters of code in what people read."""
_KINDS = tuple(Kind)


@dataclass(frozen=True, slots=True)
class Mutant:
    """``data`` is the whole file with one small change, ``what`` says which, for people; ``line`` counts from 1. Its
    code may never end: whoever runs it needs a bound."""

    path: str
    line: int
    what: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Candidate:
    edit: Edit
    line: int
    in_loop: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A function that was changed, and what can be changed in it. ``begin`` and ``end`` are of the statement of its
    module that it is, or is in."""

    path: str
    source: Source
    begin: int
    end: int
    candidates: Sequence[Candidate]


def mutants(changes: Mapping[str, tuple[bytes | None, bytes | None]], most: int) -> tuple[Mutant, ...]:
    """Changes by path, each before and after. The same ones for the same changes."""
    files = [list(places(path, before, after)) for path, before, after in within_bounds(changes)] if most > 0 else []
    spread = sorted(
        ((number, one) for file in files for number, one in enumerate(file)), key=lambda both: (both[0], both[1].path)
    )
    return tuple(islice(chosen([one for _, one in spread]), max(most, 0)))


def within_bounds(
    changes: Mapping[str, tuple[bytes | None, bytes | None]],
) -> Iterator[tuple[str, bytes | None, bytes]]:
    left = MOST_BYTES
    sizes = {path: [len(each or b"") for each in both] for path, both in changes.items()}
    for path in sorted(sizes, key=lambda path: (sum(sizes[path]), path)):
        before, after = changes[path]
        if after is not None and path.endswith(".py") and not is_in_tests(path) and max(sizes[path]) <= LARGEST:
            left -= sum(sizes[path])
            if left >= 0 and before != after:
                yield path, before, after


def places(path: str, before: bytes | None, after: bytes) -> Iterator[Place]:
    """Functions that are other than before, or new, in the order of the file."""
    source, old = read(after), read(before)
    if source is None:
        return
    changed = compared(old, source)
    new_lines = changed_lines(old.text if old else before or b"", source.text) - lines_about_types(source.tree)
    starts = source.line_starts()
    operators = Operators(Edits(source, starts))
    statements = [starts[first_line(one) - 1] for one in source.tree.body]
    functions = (one for one in (*changed.edited, *changed.new) if not is_test(one.name))
    for function in islice(sorted(functions, key=lambda one: one.node.lineno), MOST_FUNCTIONS):
        found = islice(candidates(function.node, operators, starts, new_lines), MOST_OF_A_FUNCTION)
        after_it = bisect_right(statements, starts[function.node.lineno - 1])
        yield Place(path, source, statements[after_it - 1], [*statements, len(source.text)][after_it], list(found))


def first_line(statement: ast.stmt) -> int:
    return min(one.lineno for one in (*getattr(statement, "decorator_list", ()), statement))


def lines_about_types(tree: ast.Module) -> frozenset[int]:
    blocks = (node.body for node in ast.walk(tree) if isinstance(node, ast.If) and tells_types(node.test))
    return frozenset(
        line for block in blocks for line in range(block[0].lineno, (block[-1].end_lineno or block[-1].lineno) + 1)
    )


def candidates(
    function: ast.AST, operators: Operators, starts: Sequence[int], changed: frozenset[int]
) -> Iterator[Candidate]:
    for node, in_loop in running(function):
        for edit in operators.of(node):
            first, last = bisect_right(starts, edit.start), bisect_right(starts, max(edit.start, edit.end - 1))
            if all(line in changed for line in range(first, last + 1)):
                yield Candidate(edit, first, in_loop)


def chosen(among: Sequence[Place]) -> Iterator[Mutant]:
    """One of each function before a second one of any; of a function the kind that there are fewest of, on a line that
    has none yet. What is in a loop comes after all else."""
    kinds, lines, unfit = Counter[Kind](), Counter[tuple[str, int]](), 0
    for loops in (False, True):
        waiting = [(one, [each for each in one.candidates if each.in_loop == loops]) for one in among]
        while waiting := [both for both in waiting if both[1] and unfit <= MOST_UNFIT]:
            for place, left in waiting:
                best = min(left, key=partial(rank, place.path, kinds, lines))
                left.remove(best)
                found = mutated(place, best)
                unfit += found is None
                if found is not None:
                    kinds[best.edit.kind] += 1
                    lines[place.path, best.line] += 1
                    yield found


def rank(path: str, kinds: Counter[Kind], lines: Counter[tuple[str, int]], one: Candidate) -> tuple[int, ...]:
    return lines[path, one.line], kinds[one.edit.kind], _KINDS.index(one.edit.kind), one.edit.start


def mutated(place: Place, candidate: Candidate) -> Mutant | None:
    """None where what comes out would be no Python."""
    edit, text = candidate.edit, place.source.text
    statement = text[place.begin : edit.start] + edit.new + text[edit.end : place.end]
    if parsed(statement.decode()) is None:
        return None
    changed = text[: edit.start] + edit.new + text[edit.end :]
    return Mutant(place.path, candidate.line, described(edit, text), place.source.as_written(changed))


def described(edit: Edit, text: bytes) -> str:
    old, new = (" ".join(one.decode().split()) for one in (text[edit.start : edit.end], edit.new))
    if edit.kind == Kind.CONDITION:
        return f"`{shortened(old, LONGEST_SIDE)}` was negated"
    new = shortened(new, LONGEST_SIDE // 2)
    return f"`{shortened(old, LONGEST_SIDE - len(new))}` became `{new}`"
