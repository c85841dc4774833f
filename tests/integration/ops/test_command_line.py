"""The console script: every verb under one name, from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from agentops.command_line import OF_RUNS, meant

ROOT = Path(__file__).parents[3]


def verbs_of_runs() -> set[str]:
    parser = load_command_class("loops", "agentops").create_parser("agentops", "agentops")
    return set(next(action.choices for action in parser._actions if action.dest == "verb"))


@pytest.mark.spec("T3")
def test_verbs_of_runs_need_no_second_name_and_hide_no_command() -> None:
    assert verbs_of_runs() <= OF_RUNS, "a verb that agentops.command_line does not know"
    assert verbs_of_runs().isdisjoint(get_commands())
    for verb in verbs_of_runs():
        assert meant(["agentops", verb, "-x"]) == ["agentops", "agentops", verb, "-x"]
    for verb in ("backup", "restore", "doctor", "prune", "up", "agentops", "help", "--version", "typing error"):
        assert meant(["agentops", verb]) == ["agentops", verb]
    assert meant(["agentops"]) == ["agentops"]


@pytest.mark.spec("T3")
def test_it_runs_from_any_folder(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from agentops.command_line import main; main()"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "AGENTOPS_"))}
    said = subprocess.run(
        [sys.executable, "-c", code, "backup", "--help"],
        cwd=tmp_path,
        env={**clean, "AGENTOPS_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--to" in said.stdout
