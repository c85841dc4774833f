"""Mutations of constants that are SQL: ``never WORDS`` and ``always WORDS``, as ``mutations`` has them for code."""

from __future__ import annotations

import re

from tests.controls.mutations import Unfit, chosen, words_of

_TOKEN = re.compile(r"%\(\w+\)s|\{\w+\}|'[^']*'|\"[^\"]*\"|[\w.]+|\S")
_BEFORE = frozenset({"AND", "OR", "NOT", "WHERE", "ON", "WHEN", "HAVING"})
_AFTER = _BEFORE | {"THEN", "RETURNING", "ORDER", "GROUP", "FOR", "LIMIT", "LEFT", "JOIN"}


def mutated_sql(sql: str, mutation: str) -> str:
    """The smallest condition that mentions all words holds never, or always; what it asks is still asked, so that it
    takes the same parameters. Raises Unfit."""
    verb, _, rest = mutation.partition(" ")
    if verb not in ("never", "always"):
        raise Unfit(f"no mutation of SQL is called {verb!r}")
    words, number = words_of(rest)
    meant = [span for span in _conditions(sql) if all(re.search(rf"\b{word}\b", sql[slice(*span)]) for word in words)]
    smallest = [span for span in meant if not any(_is_inside(other, span) for other in meant)]
    start, end = chosen(smallest, number, mutation)
    return f"{sql[:start]}({sql[start:end]} {'OR TRUE' if verb == 'always' else 'AND FALSE'}){sql[end:]}"


def _is_inside(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and other[0] <= one[0] and one[1] <= other[1]


def _conditions(sql: str) -> list[tuple[int, int]]:
    """Where each begins and ends: between AND, OR, NOT, brackets and clauses."""
    found, begun = list[tuple[int, int]](), [-1]
    """Where the condition begins that is open, for each bracket; -1 outside of one."""
    last = ""
    for token in _TOKEN.finditer(sql):
        word = token[0].upper()
        if begun[-1] == -1 and last in _BEFORE:
            begun[-1] = token.start()
        if word == ",":  # a list, and no condition
            begun[-1] = -1
        if word in (_AFTER | {")"}) and begun[-1] not in (-1, token.start()):
            found.append((begun[-1], len(sql[: token.start()].rstrip())))
            begun[-1] = -1
        if word == "(":
            begun.append(-1)
            last = "AND" if last in _BEFORE else word
            continue
        if word == ")":
            begun.pop()
        last = word
    if begun[-1] != -1:
        found.append((begun[-1], len(sql.rstrip())))
    return sorted(found)
