"""`manage.py login_link`: print a link that logs one user in, once, within the hour."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from agentops.login import accounts
from loops.management.terminal import TerminalCommand


class Command(TerminalCommand):
    """For people at the machine who have lost their password."""

    help = "Print a link that logs a user in once, within the hour."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare whom the link is for."""
        parser.add_argument("username", nargs="?", default="", help="default: the first admin")

    def handle(self, *args: Any, **options: Any) -> str:
        """Make the link."""
        name = options["username"]
        user = User.objects.filter(username=name, is_active=True).first() if name else accounts.first_admin()
        if user is None:
            raise CommandError(f"no active user is called {name}" if name else "there is no admin: run `migrate`")
        return accounts.way_in(user)
