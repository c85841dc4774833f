"""The limit: two prepared single-row inserts of 1 KB a step, each its own commit; what disk and wire alone cost."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.bench.work import RESULTS, Marks


def login() -> dict[str, str]:
    """Of the owner, who may also change settings and make databases."""
    from django.conf import settings

    owner = settings.DATABASE_OWNER
    names = {"host": "HOST", "user": "USER", "password": "PASSWORD"}
    return {key: str(owner[name]) for key, name in names.items()} | {"dbname": settings.DATABASES["default"]["NAME"]}


def connected() -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(**login(), autocommit=True, prepare_threshold=0)


def prepare() -> None:
    with connected() as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS raw_bench (id bigserial PRIMARY KEY, run text, seq int, body jsonb)"
        )


def run(connection: psycopg.Connection[tuple[Any, ...]], marks: Marks) -> None:
    for number in range(marks.steps):
        marks.ask()
        for half in range(2):
            body = Jsonb({"role": "tool", "id": f"call_{number}", "content": RESULTS[number % 64]})
            connection.execute(
                "INSERT INTO raw_bench (run, seq, body) VALUES (%s, %s, %s)", ("r", 2 * number + half, body)
            )
    marks.ask()
