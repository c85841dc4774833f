"""`manage.py monitor`: watch live runs from outside the workers (SPEC F2)."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.conf import settings

from loops.management.terminal import TerminalCommand
from loops.monitor.embeddings import Embedder, Meanings
from loops.monitor.policy import from_settings
from loops.monitor.watch import Monitor
from loops.services.models import model_configs


class Command(TerminalCommand):
    """A process of its own: no worker and no broker is needed for it to see."""

    help = "Watch live runs for loops, stalls, silence and runaway spend. A second one stands by."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Until somebody asks to stop."""
        stop = threading.Event()
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, lambda *_: stop.set())
        policy = from_settings()
        Monitor(policy, Meanings(_embedder, policy) if settings.MONITOR_EMBEDDINGS else None).run(stop)


def _embedder() -> Embedder:
    """Imported when it is asked for: without one nothing of it is loaded."""
    from loops.llm.embeddings import connected

    return connected(model_configs(), settings.MONITOR_EMBEDDINGS)
