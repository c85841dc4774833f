"""`manage.py verify_chain`: read the whole record and find any tampering, up to the last anchor (SPEC N1)."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agentops.evidence import verification
from loops.management.terminal import TerminalCommand
from loops.storage import chain


class Command(TerminalCommand):
    """Ends with an error when anything does not fit, so that a schedule notices."""

    help = (
        "Verify that nothing recorded was changed or removed: journals, stored bodies and provenance records of one "
        "run, or of all; then also decisions, audit events and every other append-only table, up to the anchor that "
        "is kept outside the database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what to verify."""
        parser.add_argument("run", nargs="?", type=uuid.UUID, help="id of a run (default: everything)")
        parser.add_argument("--anchor", type=Path, help="a copy of the anchor file kept elsewhere (default: our own)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Verify and say what was found."""
        report = chain.verify(options["run"])
        evidence = verification.verify(options["anchor"], options["run"])
        problems = [*report.problems, *evidence.problems]
        for problem in problems:
            self.stderr.write(problem, self.style.ERROR)
        checked = f"{report.runs} runs, {report.facts} facts, {report.blobs} blobs, {report.records} provenance records"
        if report.pruned:
            checked += f"; {report.pruned} bodies were pruned by retention and are explained by tombstones"
        if options["run"] and not report.runs and not problems:
            raise CommandError(f"There is no run {options['run']}.")
        checked += f"; {_sealed(evidence)}" if not options["run"] else f"; {_anchored(evidence)}"
        if problems:
            raise CommandError(f"{len(problems)} problems in {checked}.")
        self.stdout.write(f"Intact: {checked}.", self.style.SUCCESS)


def _sealed(evidence: verification.Evidence) -> str:
    said = f"{evidence.rows} sealed rows"
    if evidence.waiting:
        said += f", {evidence.waiting} not sealed yet"
    return f"{said}, {_anchored(evidence)}"


def _anchored(evidence: verification.Evidence) -> str:
    if evidence.anchored is None:
        return "no anchor: what was cut at the end cannot be found"
    return f"anchored {evidence.anchored:%Y-%m-%d %H:%M:%S} UTC"
