"""The Celery app of a worker that takes every exit code for a proof, as a control. Only they import this."""

from __future__ import annotations

import importlib

import django

django.setup()

from agentops.celery import app  # noqa: E402 - after the setup
from loops.tools.test_sessions.verdict import UNHEARD  # noqa: E402

__all__ = ["app"]
OFF = (
    ("loops.tools.reviewed_files", "looked_at", lambda *given: ()),  # detectors
    ("loops.runs.drive", "RunCheckouts", lambda *given: None),  # seals, and the canary
    ("loops.tools.test_sessions.channel", "Channel.verdict", lambda *given: UNHEARD),  # reports
)
"""(module, attribute, what stands in its place)"""

for module, name, instead in OFF:
    place = importlib.import_module(module)
    *within, last = name.split(".")
    for part in within:
        place = getattr(place, part)
    assert hasattr(place, last), f"{module} has no {name}"
    setattr(place, last, instead)
