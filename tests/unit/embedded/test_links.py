"""Links that commands print lead to the pages as they are served, whichever shell the command is typed in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentops.embedded.paths import BASE_DIR, Paths

pytestmark = pytest.mark.spec("T3", "X1")


@pytest.mark.parametrize(
    ("kept", "given", "address"),
    [
        ("8010", {}, "http://127.0.0.1:8010"),
        ("8010", {"PORT": "8020"}, "http://127.0.0.1:8020"),
        ("8010", {"BASE_URL": "https://agents.example"}, "https://agents.example"),
        ("nonsense", {}, "http://127.0.0.1:8000"),
        ("", {}, "http://127.0.0.1:8000"),
    ],
)
def test_a_command_of_another_shell_knows_where(tmp_path: Path, kept: str, given: dict[str, str], address: str) -> None:
    paths = Paths(tmp_path / "s")
    paths.make()
    if kept:
        paths.port.write_text(kept)
    bare = {name: value for name, value in os.environ.items() if name not in ("PORT", "BASE_URL")}
    shell = {**bare, "AGENTOPS_STATE": str(paths.state), "DJANGO_SETTINGS_MODULE": "agentops.settings", **given}
    asked = [sys.executable, "-c", "from django.conf import settings; print(settings.BASE_URL)"]
    printed = subprocess.run(asked, env=shell, cwd=BASE_DIR, check=True, capture_output=True, text=True).stdout
    assert printed.strip() == address
