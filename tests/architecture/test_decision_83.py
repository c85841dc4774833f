"""The index of the tests that decision 83 asks for names tests that exist, and leaves out none of what is asked."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "agentops" / "docs" / "decision-83-tests.md"
ROW = re.compile(r"^\| (unit|integration|e2e) \| (.+?) \| `(\w+)` \| `([\w/.]+)` \|$", re.MULTILINE)
ASKED = (
    ("unit", "Loop detection logic (3 identical errors)"),
    ("unit", "Termination criteria"),
    ("unit", "Retry with replanning (verifies different approaches)"),
    ("unit", "State management (history tracking)"),
    ("unit", "Confidence evaluation triggers"),
    ("integration", "Full task execution with iterations"),
    ("integration", "TAS permission denial handling"),
    ("integration", "Orchestrator confidence gating"),
    ("integration", "Loop detection → escalation flow"),
    ("integration", "Progress validation (all 3 methods)"),
    ("e2e", "Complete task with multiple steps"),
    ("e2e", "Recovery from failures with retry"),
    ("e2e", "Loop detection → human gate"),
    ("e2e", "Low confidence → human gate"),
    ("e2e", "Tool permission denied → adaptation"),
)
ROWS = ROW.findall(INDEX.read_text())


@pytest.mark.parametrize(("level", "what"), ASKED)
def test_everything_that_is_asked_has_its_test(level: str, what: str) -> None:
    assert any(row[0] == level and row[1].startswith(what) for row in ROWS)


@pytest.mark.parametrize(("level", "name", "file"), sorted({(row[0], *row[2:]) for row in ROWS}))
def test_every_test_that_is_named_exists_on_its_level(level: str, name: str, file: str) -> None:
    assert file.startswith(f"tests/{level}/")
    assert re.search(rf"^ *(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
