"""Packages of Node's as they are published, for tests that need the registry; npm fetches them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "node"


def npm(folder: Path, *words: str) -> None:
    """What ``npm`` does there."""
    if not shutil.which("npm"):
        pytest.fail("no npm: install nodejs")
    subprocess.run(["npm", *words, "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=300)


def locked(folder: Path) -> Path:
    """The ``node_modules`` that the lock file of ``folder`` names, installed once for each lock."""
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()[:12]
    kept = KEPT / f"{folder.name}-{lock}"
    if not kept.exists():
        made = KEPT / f"{folder.name}-{os.getpid()}"
        shutil.copytree(folder, made)
        npm(made, "ci")
        made.rename(kept)
    return kept / "node_modules"
