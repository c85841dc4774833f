"""Tables that only grow, as sealing and verification see them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.db.models import Model

from agentops import roles
from loops.models import Blob, Fact, Seal

HEADS = Fact._meta.db_table
"""Facts are chained as they are written; what is sealed of them is the head of each journal, keyed ``run:seq``."""
OTHERWISE: dict[type[Model], str] = {
    Fact: "each journal is a chain, whose head is sealed",
    Blob: "a body is named by its SHA-256, and facts that are sealed name it",
    Seal: "seals are the chain",
}
"""Tables whose rows have no seal each, and why."""
DATED = ("at", "created_at")


@dataclass(frozen=True)
class Sealed:
    """A table whose rows are sealed one by one. SQL over the alias ``t``."""

    table: str
    key: str
    """Text that names a row: its primary key, several columns joined by colons."""
    at: str
    """When the row says that it was made."""

    digest = """sha256(convert_to((
        SELECT jsonb_object_agg(c.key, c.value) FROM jsonb_each(to_jsonb(t)) c WHERE c.value <> 'null'::jsonb
    )::text, 'UTF8'))"""
    """Of all columns by name. Without those that are NULL: a column that comes later leaves old rows as they were."""


@cache
def sealed() -> tuple[Sealed, ...]:
    """Every append-only table but those of ``OTHERWISE``."""
    return tuple(_sealed(model) for model in roles.append_only_models() if model not in OTHERWISE)


def chains() -> list[str]:
    """Tables that have a chain of seals."""
    return sorted([HEADS, *(one.table for one in sealed())])


def _sealed(model: type[Model]) -> Sealed:
    """Raises LookupError for a table whose rows have no date."""
    columns = {field.name: field.column for field in model._meta.concrete_fields if field.column}
    key = ", ".join(f't."{field.column}"' for field in model._meta.pk_fields)
    dated = next((columns[name] for name in DATED if name in columns), None)
    if dated is None:
        raise LookupError(f"{model.__name__} is append-only and its rows have no date: give it `at`, see ADR 0046")
    return Sealed(model._meta.db_table, f"concat_ws(':', {key})", f't."{dated}"')
