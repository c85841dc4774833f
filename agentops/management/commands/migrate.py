"""`migrate`, always as the owner of the database, and ending with the application's permissions."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.migrations.executor import MigrationExecutor

from agentops import roles

NO_OWNER = (
    "DATABASE_OWNER_URL is not set: migrating with the application's own role, "
    "so the database cannot protect append-only tables from it."
)


class Command(migrate.Command):
    """Django's own command under another login."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare one more flag."""
        super().add_arguments(parser)
        parser.add_argument("--skip-when-current", action="store_true", help="do nothing when nothing is to migrate")

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, then grant."""
        if options["skip_when_current"] and _is_current():
            return
        if settings.DATABASE_OWNER is None:
            self.stderr.write(NO_OWNER)
        with roles.as_owner():
            if settings.DATABASE_OWNER:
                roles.ensure_app_role()
            super().handle(*args, **options)
            if settings.DATABASE_OWNER and options["database"] == DEFAULT_DB_ALIAS:
                roles.grant_app_role()


def _is_current() -> bool:
    """Tell whether every migration is applied and every permission given."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return False
    if settings.DATABASE_OWNER and not roles.grants_are_current():
        return False
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())
