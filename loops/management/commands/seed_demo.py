"""`manage.py seed_demo`: a project that shows everything without a language model."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser

from loops.management.terminal import TerminalCommand
from loops.services import demo, people


class Command(TerminalCommand):
    """May be run any number of times: what is there already stays as it is."""

    help = "Make the project Demo with scripted agents, the workspace Invoices and a default policy."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what to make beside the project."""
        parser.add_argument("--users", action="store_true", help="also make the users admin, operator and reviewer")
        parser.add_argument("--runs", action="store_true", help="also submit one task for each kind of run")
        parser.add_argument("--as", dest="actor", default="", help="who submits the tasks (default: a superuser)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make it."""
        project = demo.seed()
        if options["users"]:
            for username, password in people.create_demo_users(project).items():
                self.stdout.write(f"{username}: {password}")
        made = demo.submit_all(_actor(options["actor"])) if options["runs"] else []
        if options["verbosity"]:
            new = sum(one.created for one in made)
            self.stdout.write(f"Project {project.name}: {project.agents.count()} agents, {new} new runs")


def _actor(username: str) -> Any:
    users = get_user_model()._default_manager.filter(is_active=True)
    found = users.filter(username=username) if username else users.filter(is_superuser=True).order_by("pk")
    if (actor := found.first()) is None:
        raise CommandError(f"There is no user {username}." if username else "There is no superuser: use --users.")
    return actor
