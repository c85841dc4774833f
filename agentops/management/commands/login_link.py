"""`manage.py login_link`: print a link that logs one user in, once, within the hour."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentops import accounts, onetime


class Command(BaseCommand):
    """For people at the machine who have lost their password."""

    help = "Print a link that logs a user in once, within the hour."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare whom the link is for."""
        parser.add_argument("username", nargs="?", default=accounts.ADMIN)

    def handle(self, *args: Any, **options: Any) -> str:
        """Make the link."""
        user = User.objects.filter(username=options["username"], is_active=True).first()
        if user is None:
            raise CommandError(f"no active user is called {options['username']}")
        return f"{settings.BASE_URL.rstrip('/')}{onetime.issue(user)}"
