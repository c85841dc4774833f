"""`manage.py smoke`: start everything for real, walk through it in a browser, measure, stop everything."""

import shutil
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentops.smoke import SmokeError
from agentops.smoke.installation import Installation
from agentops.smoke.walk import Figures, Walk

TARGET_MS = 500
"""What is committed is on the screen after at most this, 19 times of 20."""


class Command(BaseCommand):
    """Uses a state folder and a port of its own; an installation that runs here is left alone."""

    help = "Start AgentOps in a temporary folder, run the demonstration in a browser, and print what was measured."
    requires_system_checks: list[str] = []  # some want the database of an installation, which need not run

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the flags."""
        parser.add_argument(
            "--into", type=Path, default=Path("test-results/smoke"), help="pictures and logs of a failure"
        )
        parser.add_argument("--strict", action="store_true", help=f"fail when the p95 is above {TARGET_MS} ms")

    def handle(self, *args: Any, **options: Any) -> None:
        """Walk; say in one line what was measured, or which step failed and where its traces are."""
        began = time.monotonic()
        installation, into = Installation(), options["into"]
        shutil.rmtree(into, ignore_errors=True)
        try:
            installation.start()
            ready = time.monotonic() - began
            figures = Walk(installation, self._say, into).go()
            chain = installation.manage("verify_chain")
            installation.stop()
        except Exception as error:
            raise CommandError(self._told(error, installation, into)) from error
        finally:
            self._leave(installation)
        self.stdout.write(_line(figures, ready, time.monotonic() - began, chain))
        if options["strict"] and figures.percentile(0.95) > TARGET_MS:
            raise CommandError(f"p95 is above {TARGET_MS} ms")

    def _told(self, error: Exception, installation: Installation, into: Path) -> str:
        into.mkdir(parents=True, exist_ok=True)
        for log in (installation.state / "up.log", *installation.state.glob("log/*.log")):
            if log.exists():
                shutil.copy(log, into)
        what = str(error) if isinstance(error, SmokeError) else f"{type(error).__name__}: {error}"
        return f"{what}\n{installation.last_words()}\npictures and logs: {into.absolute()}"

    def _leave(self, installation: Installation) -> None:
        try:
            installation.stop()
        except SmokeError as error:
            self._say(str(error))
        installation.remove()

    def _say(self, line: str) -> None:
        self.stderr.write(line)


def _line(figures: Figures, ready: float, total: float, chain: str) -> str:
    p50, p95 = figures.percentile(0.5), figures.percentile(0.95)
    shown = ", ".join(f"{delay:.0f}" for delay in figures.gates)
    return (
        f"ready after {ready:.1f} s; {len(figures.delays)} changes visible after p50 {p50:.0f} ms, p95 {p95:.0f} ms "
        f"(target {TARGET_MS}); {len(figures.gates)} gates in the queue after {shown} ms; "
        f"tests {' -> '.join(figures.tests)}; run {figures.run_s:.1f} s, COMMIT; {chain} In all {total:.1f} s."
    )
