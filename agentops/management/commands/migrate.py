"""`migrate`, always as the owner of the database, ending with the application's permissions and a way in for people."""

from typing import Any

import redis
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.migrations.executor import MigrationExecutor

from agentops import roles
from agentops.embedded import EmbeddedError
from agentops.login import accounts
from loops.services.models import ensure_default_models
from loops.services.people import ensure_groups

NO_OWNER = (
    "DATABASE_OWNER_URL is not set: migrating with the application's own role, "
    "so the database cannot protect append-only tables from it."
)


PARTIAL = ("app_label", "plan", "check_unapplied", "prune", "fake")


class Command(migrate.Command):
    """Django's own command under another login."""

    help = "Bring the database to this version, as its owner; make the groups and the first admin."
    by_hand = False

    def run_from_argv(self, argv: list[str]) -> None:
        """From a terminal, or a container's command: people are told how to come in."""
        self.by_hand = True
        super().run_from_argv(argv)

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
        if self.by_hand and options["database"] == DEFAULT_DB_ALIAS and not any(options[name] for name in PARTIAL):
            ensure_groups()
            self._let_in()

    def _let_in(self) -> None:
        """Make the first admin. Until one has logged in, every call prints a new link: the last may be lost."""
        try:
            made = accounts.make_first_admin()
        except EmbeddedError as error:
            raise CommandError(str(error)) from error
        if made is not None:
            ensure_default_models()
        admin = made or accounts.first_admin()
        if admin is None or admin.last_login or admin.has_usable_password():
            self._say(f"Made the admin {made.username}, with the password that was given." if made else "")
            return
        try:
            self._say(f"Log in as {admin.username}, once, within the hour: {accounts.way_in(admin)}")
        except redis.RedisError:
            self._say(f"The admin {admin.username} has no password yet: run `manage.py login_link` for a way in.")

    def _say(self, line: str) -> None:
        if line:
            self.stdout.write(line)


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
