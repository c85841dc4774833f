"""Where the stand's own process rings: nowhere, at the broker, or three times at the broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class Silent:
    """Nobody hears it: the test drives the runs itself."""

    def send_task(self, name: str, **_: Any) -> None:
        pass


class Triple:
    """Every bell is delivered three times."""

    def send_task(self, name: str, **how: Any) -> None:
        from agentops.celery import app

        for _ in range(3):
            app.send_task(name, **how)


silent, triple = Silent(), Triple()
LOUD, TRIPLE = "agentops.celery.app", f"{__name__}.triple"


@contextlib.contextmanager
def heard(where: str = LOUD) -> Iterator[None]:
    """Let real workers hear what this process rings."""
    from django.conf import settings

    before = settings.AGENTOPS_CELERY
    settings.AGENTOPS_CELERY = where
    try:
        yield
    finally:
        settings.AGENTOPS_CELERY = before
