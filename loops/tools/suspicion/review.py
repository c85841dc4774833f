"""All detectors over the changes of a run: what a reviewer should know, the suspicious first (SPEC Q3, L2)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from loops.engine.state.remark import Level, Remark
from loops.engine.text.truncation import shortened
from loops.tools.suspicion import (
    javascript,
    known_answers,
    python_code,
    recorded,
    script_answers,
    script_code,
    steering,
    weaker_tests,
)
from loops.tools.suspicion.changes import LARGEST, Change, is_in_tests, too_large
from loops.tools.suspicion.goals import Goal
from loops.tools.suspicion.python_names import Function, parsed
from loops.tools.suspicion.python_tests import cases
from loops.tools.suspicion.signs import Sign, new_of
from loops.tools.suspicion.weaker_tests import Tested

MOST = 100
LOOKED_AT = 8_000_000
"""Bytes of code in all."""
TEXT_CHARS, PATH_CHARS = 300, 300
_OF_TESTS = frozenset({
    "test_removed", "test_skipped", "assert_always_true", "failure_swallowed", "cases_changed", "checks_removed",
    "check_loosened", "expectation_changed",
})  # fmt: skip
"""What a task that asks to change tests may do."""


def remarks(
    changes: Iterable[Change], commands: Sequence[str], goal: str, tests: Mapping[str, bytes] | None = None
) -> tuple[Remark, ...]:
    """``tests`` are test files that stayed as they were, by path."""
    wanted = Goal(goal)
    read, found = _readable(sorted(changes, key=lambda one: one.path))
    found += steering.remarks(read, commands, wanted)
    for looked in (in_python, in_script, deleted_tests):
        found += _guarded(looked, read, tests or {}, wanted)
    found += changed_tests(read, {remark.path for remark in found})
    allowed = [_allowed(remark, wanted) for remark in found]
    allowed.sort(key=lambda one: (one.level is not Level.SUSPICIOUS, one.path, one.line))
    return _bounded(list(dict.fromkeys(allowed)))


def _readable(changes: Sequence[Change]) -> tuple[list[Change], list[Remark]]:
    found, read, room = too_large(changes), list[Change](), LOOKED_AT
    for one in changes:
        if one.before == one.after:  # its permissions alone
            continue
        size = len(one.before or b"") + len(one.after or b"")
        if max(len(one.before or b""), len(one.after or b"")) > LARGEST:
            continue
        room -= size
        if room < 0:
            text = f"Not looked at: the changes have more than {LOOKED_AT:,} bytes of code."
            found.append(Remark("not_looked_at", one.path, text))
            break
        read.append(one)
    return read, found


Look = Callable[[Sequence[Change], Mapping[str, bytes], Goal], Iterable[Remark]]


def _guarded(look: Look, changes: Sequence[Change], tests: Mapping[str, bytes], goal: Goal) -> list[Remark]:
    """All at once; where one file is too deep to be looked at, each by itself."""
    try:
        return list(look(changes, tests, goal))
    except RecursionError:
        found = list[Remark]()
        for one in changes:
            try:
                found += look([one], tests, goal)
            except RecursionError:
                found.append(_unread(one))
        return found


def _unread(one: Change) -> Remark:
    level = Level.SUSPICIOUS if one.is_test else Level.TO_KNOW
    return Remark("not_looked_at", one.path, "Not looked at: it does not parse.", level=level)


def in_python(changes: Sequence[Change], tests: Mapping[str, bytes], goal: Goal) -> Iterator[Remark]:
    files, signs, gone, libraries = list[Tested](), [], set[str](), []
    of_tests = [tree for path, data in tests.items() if path.endswith(".py") and (tree := parsed(data))]
    for one in changes:
        if not one.is_python:
            continue
        before, after = parsed(one.before), parsed(one.after)
        if after is None or (before is None and one.is_test):
            yield _unread(one)
            continue
        if one.is_test:
            files.append(Tested(one.path, cases(before) if before else {}, cases(after)))
            of_tests += [tree for tree in (before, after) if tree]
        else:
            libraries.append((one, before, after))
            gone |= _defined(before) - _defined(after)
        signs.append((one.path, _signs(one, before), _signs(one, after)))
    yield from weaker_tests.compared(files, frozenset(gone) if goal.removes else frozenset())
    yield from new_of(signs)
    known = known_answers.pairs_of_tests(of_tests)
    for one, before, after in libraries:
        yield from known_answers.remarks(one.path, before, after, known)


def _signs(one: Change, tree: ast.Module | None) -> list[Sign]:
    return list(python_code.signs(one, tree)) if tree is not None else []


def _defined(tree: ast.Module | None) -> set[str]:
    kinds = Function | ast.ClassDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} if tree is not None else set()


def in_script(changes: Sequence[Change], tests: Mapping[str, bytes], goal: Goal) -> Iterator[Remark]:
    files, signs, held = list[Tested](), [], []
    known = {pair for path, data in tests.items() if Change(path, data, data).is_script
             for pair in script_answers.answers_of_tests(javascript.words_of(data))}  # fmt: skip
    for one in changes:
        if not one.is_script:
            continue
        before, after = javascript.words_of(one.before), javascript.words_of(one.after)
        signs.append((one.path, list(script_code.signs(one, before)), list(script_code.signs(one, after))))
        if one.is_test:
            files.append(Tested(one.path, javascript.cases(before), javascript.cases(after)))
            known |= script_answers.answers_of_tests(before) | script_answers.answers_of_tests(after)
        else:
            answers = script_answers.held_answers(before), script_answers.held_answers(after)
            held.append((one.path, *answers, script_answers.written_inputs(after)))
    yield from weaker_tests.compared(files, frozenset())
    yield from recorded.remarks(changes)
    yield from new_of(signs)
    for path, old, new, written in held:
        yield from known_answers.of_file(path, old, new, known, written)


def deleted_tests(changes: Sequence[Change], tests: Mapping[str, bytes], goal: Goal) -> Iterator[Remark]:
    """Test files of other languages: whether they are there is all that is looked at."""
    made = {one.name for one in changes if one.before is None} | {one.after for one in changes if one.before is None}
    for one in changes:
        if (
            one.is_test
            and one.after is None
            and not (one.is_python or one.is_script)
            and not {one.name, one.before} & made
        ):
            yield Remark("test_removed", one.path, "This test file was deleted.")


def changed_tests(changes: Sequence[Change], told: set[str]) -> Iterator[Remark]:
    for one in changes:
        if one.is_edited and is_in_tests(one.path) and one.path not in told:
            yield Remark(
                "tests_changed", one.path, "The run changed this test: look at what it checks.", level=Level.TO_KNOW
            )


def _allowed(remark: Remark, goal: Goal) -> Remark:
    """Bounded, and no suspicion where the task asks for it."""
    asked = remark.code in _OF_TESTS and goal.changes_tests
    text = f"{remark.text} The task asks to change tests." if asked else remark.text
    level = Level.TO_KNOW if asked else remark.level
    return replace(remark, path=shortened(remark.path, PATH_CHARS), text=shortened(text, TEXT_CHARS), level=level)


def _bounded(found: list[Remark]) -> tuple[Remark, ...]:
    if len(found) <= MOST:
        return tuple(found)
    left = found[MOST - 1 :]
    level = Level.SUSPICIOUS if any(one.level is Level.SUSPICIOUS for one in left) else Level.TO_KNOW
    return (*found[: MOST - 1], Remark("more", "", f"And {len(left)} more.", level=level))
