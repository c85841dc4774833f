"""`manage.py verify_chain`: read the whole record and find any tampering (SPEC N1)."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser

from loops.management.terminal import TerminalCommand
from loops.storage import chain


class Command(TerminalCommand):
    """Ends with an error when anything does not fit, so that a schedule notices."""

    help = "Verify the journals, blobs and provenance records of one run or of all."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what to verify."""
        parser.add_argument("run", nargs="?", type=uuid.UUID, help="id of a run (default: everything)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Verify and say what was found."""
        report = chain.verify(options["run"])
        for problem in report.problems:
            self.stderr.write(problem, self.style.ERROR)
        checked = f"{report.runs} runs, {report.facts} facts, {report.blobs} blobs, {report.records} provenance records"
        if report.pruned:
            checked += f"; {report.pruned} bodies were pruned by retention and are explained by tombstones"
        if options["run"] and not report.runs:
            raise CommandError(f"There is no run {options['run']}.")
        if not report.ok:
            raise CommandError(f"{len(report.problems)} problems in {checked}.")
        self.stdout.write(f"Intact: {checked}.", self.style.SUCCESS)
