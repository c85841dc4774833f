"""The browser of this machine, and how it is started: for tests, for the walk of the README, and for pictures."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def installed() -> str | None:
    """Where CHROMIUM says, else on the path; None where Playwright has to bring its own."""
    return next(filter(None, (os.environ.get("CHROMIUM"), *map(shutil.which, NAMES))), None)
