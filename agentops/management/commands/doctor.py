"""`manage.py doctor`: everything that must hold, one line each, and what to do where it does not."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agentops.ops import OpsError, checks, servers
from loops.management.terminal import TerminalCommand


class Command(TerminalCommand):
    """Ends with 1 when anything is an error, so that a schedule notices. Changes nothing."""

    help = "Check settings, database, workers, broker, sandbox, rights, chains, disk and clocks."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the flags."""
        parser.add_argument("--json", action="store_true", help="a list of {group, name, status, said, todo}")
        parser.add_argument(
            "--chains",
            action="store_true",
            help="verify all chains, seals and anchors, not only the latest chains",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Check and tell."""
        try:
            with servers.database():
                found = checks.everything(all_chains=options["chains"])
        except OpsError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps([asdict(check) for check in found], indent=1))
        else:
            for check in found:
                self._tell(check)
        errors = [check for check in found if check.status == checks.ERROR]
        if errors:
            raise CommandError(f"{len(errors)} of {len(found)} checks failed")

    def _tell(self, check: checks.Check) -> None:
        look = {checks.OK: self.style.SUCCESS, checks.WARNING: self.style.WARNING, checks.ERROR: self.style.ERROR}
        self.stdout.write(f"{check.status:<8} ", look[check.status], ending="")
        detail = f" ({check.detail})" if check.detail else ""
        todo = f"{detail}\n{'':>9}-> {check.todo}" if check.todo else detail
        self.stdout.write(f"{check.group}: {check.name}: {check.said}{todo}")
