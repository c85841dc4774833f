"""Which stored bodies a run needs: those its facts name, those its artifacts are, and those that these name in turn.

Snapshots of a folder name their files' bodies, so a reference may lie in any stored JSON. Whatever looks like a SHA-256
and is one of a stored body counts: a chance likeness keeps a body too much, and never loses one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.db import connection

from loops.engine.ends.reports import REPORT_KINDS

NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
REPORTS = tuple(REPORT_KINDS.values())
AT_ONCE = 100
_FACTS = "SELECT body FROM loops_fact WHERE run_id = ANY(%s) AND (NOT %s OR kind = 'RunEnded')"
_ARTIFACTS = "SELECT sha256 FROM loops_artifact WHERE run_id = ANY(%s) AND (NOT %s OR kind = ANY(%s))"
# Only JSON objects and lists hold references; anything else need not be read.
_BODIES = (
    "SELECT sha256, size, CASE WHEN substring(body FROM 1 FOR 1) IN ('[', '{') THEN body END FROM loops_blob "
    "WHERE sha256 = ANY(%s)"
)


def bodies(runs: Iterable[uuid.UUID], *, only_the_end: bool = False) -> dict[str, int]:
    """SHA-256 (hex) -> size in bytes of every stored body that ``runs`` need; with ``only_the_end`` what their final
    reports need."""
    found: dict[str, int] = {}
    with connection.cursor() as cursor:
        for some in _chunks(list(runs)):
            _follow(cursor, _named(cursor, some, only_the_end), found)
    return found


def _named(cursor: Any, runs: Sequence[uuid.UUID], only_the_end: bool) -> set[str]:
    cursor.execute(_FACTS, [runs, only_the_end])
    names = {name for (body,) in cursor.fetchall() for name in _names(body)}
    cursor.execute(_ARTIFACTS, [runs, only_the_end, list(REPORTS)])
    return names | {sha256 for (sha256,) in cursor.fetchall()}


def _follow(cursor: Any, names: set[str], found: dict[str, int]) -> None:
    """Add what is stored under ``names``, and what that names, until nothing new comes."""
    asked: set[str] = set()
    while names := names - found.keys() - asked:
        asked |= names
        named: set[str] = set()
        for some in _chunks(sorted(names)):
            cursor.execute(_BODIES, [some])
            for sha256, size, body in cursor.fetchall():
                found[sha256] = size
                named.update(_names(body) if body is not None else ())
        names = named


def _names(body: Any) -> Iterator[str]:
    return (name.decode() for name in NAME.findall(bytes(body)))


def _chunks(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), AT_ONCE):
        yield list(items[start : start + AT_ONCE])
