"""`manage.py monitor`: watch live runs from outside the workers (SPEC F2)."""

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from loops.monitor.policy import from_settings
from loops.monitor.watching import Monitor


class Command(BaseCommand):
    """A process of its own: no worker and no broker is needed for it to see."""

    help = "Watch live runs for circles, stalls, silence and runaway spend. A second one stands by."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Until somebody asks to stop."""
        stop = threading.Event()
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, lambda *_: stop.set())
        Monitor(from_settings()).run(stop)
