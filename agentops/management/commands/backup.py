"""`manage.py backup`: the database and what lies on disk, in one file that can be restored anywhere."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from agentops.embedded.root import service_user
from agentops.ops import OpsError, servers
from agentops.ops.backup import back_up
from loops.management.terminal import TerminalCommand
from loops.services import audit


class Command(TerminalCommand):
    """Runs beside a living AgentOps, or without one."""

    help = "Back up database, workspaces and secrets into one file. It holds secrets: keep it as you keep them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare where to."""
        parser.add_argument("--to", type=Path, help="file to write (default: a new one in the state folder's backups/)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file; the last line on standard output is its path."""
        named = f"agentops-{datetime.now(UTC):%Y%m%d-%H%M%S}.zip"
        target: Path = (options["to"] or settings.PATHS.state / "backups" / named).absolute()
        with service_user.as_caller():
            target = target / named if target.is_dir() else target
        try:
            with servers.database():
                manifest = back_up(target, self.stderr.write)
                audit.record("backup.made", actor=None, detail={"file": target.name, "runs": len(manifest.runs)})
        except OpsError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(f"the database does not answer as it should: {error}") from error
        self.stdout.write(str(target))
