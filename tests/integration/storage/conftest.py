"""Fixtures of the storage tests: a bell that only notes, and threads with connections of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.storage.dispatched import Bells, app


@pytest.fixture(autouse=True)
def bell(settings: Any) -> Bells:
    """Nobody hears it; ``rung`` says for which runs it was rung."""
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    app.rung, app.broken = [], False
    return app
