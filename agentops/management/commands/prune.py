"""`manage.py prune`: let go of the long texts and folders of runs that their projects keep no longer."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError

from agentops import roles
from agentops.ops import OpsError, pruning, servers
from loops.management.terminal import TerminalCommand
from loops.services import retention


class Command(TerminalCommand):
    """What goes is set for each project in admin ("days to keep"). Facts, results, provenance and audit always stay."""

    help = "Prune old runs, or with --dry-run say what would be pruned, and why other runs stay."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the flag."""
        parser.add_argument("--dry-run", action="store_true", help="change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Say it, and do it."""
        try:
            with servers.database():
                self._prune(options["dry_run"])
        except (OpsError, retention.NotTheOwner) as error:
            raise CommandError(str(error)) from error
        except OperationalError as error:  # a lock that was not to be had within seconds: nothing of that run has gone
            raise CommandError(f"stopped, and can be started again: {str(error).splitlines()[0]}") from error

    def _prune(self, dry_run: bool) -> None:
        projects = retention.keeping()
        if not projects:
            self.stdout.write("Nothing to prune: set “days to keep” for a project in Admin.")
            return
        for project in projects:
            self.stdout.write(f"{project.name}: ended runs are kept for {project.keep_days} days")
        with roles.as_owner():
            found = retention.survey()
        for why, count in found.held.items():
            self.stdout.write(f"{count} older runs stay: {why}")
        if dry_run:
            for old in found.old:
                sizes = f"{len(old.blobs)} bodies with {old.blob_bytes:,} bytes, folder with {old.folder_bytes:,} bytes"
                self.stdout.write(f"would be pruned: {old.run.pk}, ended {old.run.completed_at:%Y-%m-%d}: {sizes}")
            more = " (and perhaps more after these)" if len(found.old) == retention.AT_ONCE else ""
            self.stdout.write(f"{len(found.old)} runs, {found.bytes:,} bytes would be pruned{more}.")
            return
        done = pruning.prune(say=self.stdout.write)
        self.stdout.write(f"Pruned {done.runs} runs, {done.bytes:,} bytes freed.", self.style.SUCCESS)
        if done.marked:
            later = f"{retention.GRACE_S // 60} minutes or more from now"
            self.stdout.write(f"{done.marked} more are marked and pruned next time, {later}.")
