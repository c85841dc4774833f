"""A bell that only notes who rang: settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"."""

from __future__ import annotations

from typing import Any


class Bells:
    def __init__(self) -> None:
        self.rung: list[str] = []
        self.jobs: list[tuple[str, dict[str, Any]]] = []
        self.broken = False

    def send_task(self, name: str, kwargs: dict[str, Any], **options: Any) -> None:
        if self.broken:
            raise OSError("the broker is away")
        self.jobs.append((name, kwargs))
        if "run_id" in kwargs:
            self.rung.append(kwargs["run_id"])


app = Bells()
"""Found by its dotted path, so that the code under test reaches it the way it reaches Celery."""
