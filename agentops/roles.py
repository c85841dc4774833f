"""Two database roles: the owner changes the schema, the application works in it and cannot rewrite history.

Models with `append_only = True` may be read and inserted by the application's role, and nothing else: the database
itself refuses, whatever code asks.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, TypedDict

from django.apps import apps
from django.conf import settings
from django.db import connection, connections
from django.db.models import Model
from psycopg import sql

DURABILITY = ("fsync", "synchronous_commit", "full_page_writes")
REWRITING = "UPDATE, DELETE, TRUNCATE"
TIMEOUTS = {
    "idle_in_transaction_session_timeout": "5s",  # below the lease: a frozen owner must not keep its run's row locked
    "lock_timeout": "10s",
    "statement_timeout": "60s",
}


class DatabasePromises(TypedDict):
    """What the database guarantees, as it says itself."""

    server_version: str
    fsync: bool
    synchronous_commit: bool
    full_page_writes: bool
    is_primary: bool
    role: str
    role_is_superuser: bool
    append_only_tables: dict[str, bool]
    append_only_protected: bool


@contextlib.contextmanager
def as_owner() -> Iterator[None]:
    """Let this thread's default connection belong to the owner of the database, where one is configured."""
    default = connections["default"]
    if settings.DATABASE_OWNER is None:
        yield
        return
    before = default.settings_dict
    login = {key: settings.DATABASE_OWNER[key] for key in ("USER", "PASSWORD", "HOST", "PORT")}
    default.close()
    default.settings_dict = {**before, **login}
    try:
        yield
    finally:
        default.close()
        default.settings_dict = before


def app_role() -> str:
    """Name of the role the application works with."""
    return str(settings.DATABASES["default"]["USER"])


def ensure_app_role() -> None:
    """Create the application's role when it is missing. Call as the owner."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [app_role()])
        if cursor.fetchone():
            return
        password = str(settings.DATABASES["default"]["PASSWORD"])
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        cursor.execute(create.format(sql.Identifier(app_role()), sql.Literal(password)))


def grant_app_role() -> None:
    """Give the application's role exactly what it needs. Call as the owner, after every migration."""
    role = sql.Identifier(app_role())
    grants = [
        sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role),
        sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}").format(role),
        sql.SQL("GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {}").format(role),
        sql.SQL("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {}").format(role),
        sql.SQL("REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {}").format(role),
    ]
    for setting, value in TIMEOUTS.items():
        grants.append(sql.SQL("ALTER ROLE {} SET {} = {}").format(role, sql.Identifier(setting), sql.Literal(value)))
    for table in append_only_tables():
        revoke = sql.SQL("REVOKE UPDATE, DELETE, TRUNCATE ON {} FROM {}, PUBLIC")
        grants.append(revoke.format(sql.Identifier(table), role))
    with connection.cursor() as cursor:
        for statement in grants:
            cursor.execute(statement)


def grants_are_current() -> bool:
    """Tell whether the role we work with can read every table and rewrite none of the append-only ones."""
    unreadable = """
        SELECT count(*) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
          AND NOT has_table_privilege(current_user, oid, 'SELECT')
    """
    with connection.cursor() as cursor:
        if _one(cursor, unreadable):
            return False
        return all(_is_append_only(cursor, table) for table in append_only_tables())


def append_only_models() -> list[type[Model]]:
    """Models that say `append_only = True`."""
    return [model for model in apps.get_models() if getattr(model, "append_only", False)]


def append_only_tables() -> list[str]:
    """Tables of those models."""
    return sorted(model._meta.db_table for model in append_only_models())


def database_promises() -> DatabasePromises:
    """Ask the database what it guarantees to the role we work with."""
    with connection.cursor() as cursor:
        switches = {name: _one(cursor, f"SHOW {name}") not in ("off", "local") for name in DURABILITY}
        tables = {table: _is_append_only(cursor, table) for table in append_only_tables()}
        return DatabasePromises(
            server_version=str(_one(cursor, "SHOW server_version")),
            fsync=switches["fsync"],
            synchronous_commit=switches["synchronous_commit"],
            full_page_writes=switches["full_page_writes"],
            is_primary=not _one(cursor, "SELECT pg_is_in_recovery()"),
            role=str(_one(cursor, "SELECT current_user")),
            role_is_superuser=bool(_one(cursor, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")),
            append_only_tables=tables,
            append_only_protected=all(tables.values()),
        )


def broken_durability() -> list[str]:
    """Name what would let a committed fact be lost; empty means that committed is durable."""
    with connection.cursor() as cursor:
        broken = [f"{name} is off" for name in DURABILITY if _one(cursor, f"SHOW {name}") == "off"]
        if _one(cursor, "SELECT pg_is_in_recovery()"):
            broken.append("the database is a read replica")
    return broken


def _is_append_only(cursor: Any, table: str) -> bool:
    rewritable = "SELECT has_table_privilege(current_user, to_regclass(%s), %s)"
    cursor.execute(rewritable, [connection.ops.quote_name(table), REWRITING])
    return cursor.fetchone()[0] is False  # unknown for a table that is not there yet


def _one(cursor: Any, statement: str) -> object:
    cursor.execute(statement)
    return cursor.fetchone()[0]
