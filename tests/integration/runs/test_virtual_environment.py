"""A workspace with a virtual environment in it, as most repositories in Python have: its programs start in a run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.rollback.world import Story

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I7", "J4")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


def test_its_programs_start_in_the_copy(story: Story) -> None:
    """As `python -m venv` and package installers make it: links to the machine's Python, scripts that name its own."""
    environment = story.origin / ".venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", environment], check=True)
    script = environment / "bin" / "tell"
    script.write_text(f"#!{environment}/bin/python3\nimport sys; print('prefix', sys.prefix)\n")
    script.chmod(0o755)
    story.begin([("run_command", {"argv": ["tell"]}), ("run_command", {"argv": ["python3", "-c", "print('well')"]})])
    first, second = story.run.tool_calls.filter(tool="run_command").values_list("output", flat=True)
    assert "prefix /workspace/.venv\n" in first
    assert "well" in second
    assert (story.folder / ".venv/bin/python3").readlink() == (environment / "bin/python3").readlink()
    assert script.read_text().startswith(f"#!{environment}/"), "the source is as it was"
