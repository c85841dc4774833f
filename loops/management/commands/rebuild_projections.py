"""`manage.py rebuild_projections`: compare the rows people read with the facts they come from, and put them right."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser

from loops.management.terminal import TerminalCommand
from loops.models import Run
from loops.storage.rebuild import rebuild


class Command(TerminalCommand):
    """Changes nothing without --write, and ends with an error when something differs."""

    help = "Make steps, calls and artifacts again from the journal of one run or of all, and compare."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what to rebuild."""
        parser.add_argument("run", nargs="?", type=uuid.UUID, help="id of a run (default: all)")
        parser.add_argument("--write", action="store_true", help="replace what differs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild run by run and say what was found."""
        runs = Run.objects.filter(pk=options["run"]) if options["run"] else Run.objects.order_by("id")
        keys = list(runs.values_list("id", flat=True))
        if options["run"] and not keys:
            raise CommandError(f"There is no run {options['run']}.")
        rows, different = 0, 0
        for key in keys:
            rebuilt = rebuild(key, write=options["write"])
            rows += rebuilt.rows
            different += len(rebuilt.differences)
            for difference in rebuilt.differences:
                self.stdout.write(f"run {key}: {difference}")
        checked = f"{len(keys)} runs, {rows} rows"
        if different and not options["write"]:
            raise CommandError(f"{different} rows differ in {checked}; --write puts them right.")
        done = f"{different} rows put right" if different else "as the facts say"
        self.stdout.write(f"{checked}: {done}.", self.style.SUCCESS)
