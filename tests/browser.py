"""The browser of this machine, and how it is started: for tests, for the walk of the README, and for pictures."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 120_000
"""How long an expectation about a page, or what it is told to do, may take: a bound against hanging, and no promise of
a page."""
CORNERS = (("light", 1440), ("dark", 390), ("dark", 1440), ("light", 390))
"""Themes and widths in which pages are searched for faults."""
TOLD_APART = 2
"""So many of them show nearly everything: both themes and both widths, since faults come of one or the other."""


def installed() -> str | None:
    """Where CHROMIUM says, else on the path; None where Playwright has to bring its own."""
    return next(filter(None, (os.environ.get("CHROMIUM"), *map(shutil.which, NAMES))), None)
