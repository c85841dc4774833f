"""`manage.py anchor`: seal and anchor now, or begin anew after a break (ADR 0046)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from agentops.evidence import anchors, rounds, seals
from loops.management.terminal import TerminalCommand


class Command(TerminalCommand):
    """The clock does it all the time; this is for afterwards: a restored backup, a lost file."""

    help = "Anchor the history that only grows outside the database, now. After a break: begin anew, with a reason."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the reason."""
        parser.add_argument(
            "--anew",
            metavar="WHY",
            help="judge history from here on only; the reason and what was broken go into the audit log",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Anchor and say so."""
        why = options["anew"]
        if why is not None and not why.strip():
            raise CommandError("Say why history begins anew: it is kept in the audit log.")
        try:
            if why:
                rounds.begin_anew(why.strip())
            elif not rounds.keep():
                raise CommandError(f"Not anchored: {rounds.trouble()}; {rounds.ANEW_HOW}.")
        except seals.Busy:
            raise CommandError("Another round is under way: try again in a moment.") from None
        except OSError as error:
            raise CommandError(
                f"{anchors.file()} cannot be written ({error.strerror}): make room, then repeat."
            ) from error
        self.stdout.write(f"Anchored in {anchors.file()}.", self.style.SUCCESS)
