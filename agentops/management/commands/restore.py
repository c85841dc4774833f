"""`manage.py restore FILE`: make this installation the one that was backed up."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from agentops.ops import OpsError
from agentops.ops.restore import restore
from loops.management.terminal import TerminalCommand


class Command(TerminalCommand):
    """Wants AgentOps stopped. A damaged archive, or a database with something in it, changes nothing."""

    help = "Restore a backup into a fresh installation, verify every chain, and leave its runs ready to continue."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what to restore."""
        parser.add_argument("file", type=Path, help="what `backup` wrote; only ever restore files that you trust")
        parser.add_argument("--force", action="store_true", help="replace what is here; files are kept beside")

    def handle(self, *args: Any, **options: Any) -> None:
        """Restore and say what is there now."""
        try:
            report = restore(options["file"], force=options["force"], say=self.stderr.write)
        except OpsError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(f"the database does not answer as it should: {error}") from error
        whole = f"{report.runs} runs, {report.facts} facts, {report.blobs} blobs, {report.records} provenance records"
        self.stdout.write(f"Restored and intact: {whole}. Start AgentOps to continue.", self.style.SUCCESS)
