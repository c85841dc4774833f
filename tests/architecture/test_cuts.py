"""A text that is cut at a plain number says nowhere how long it may be: such places may only become fewer."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("X5")
ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"migrations", "demo", "smoke", "examples", "scripts"}
SHORTEST = 20
"""Slices by smaller plain numbers are indexes and prefixes."""
ALLOWED = {
    "agentops/management/commands/shots.py": 1,
    "agentops/ops/checks.py": 1,
    "gates/gatekeeper.py": 2,
    "gates/web/arguments.py": 1,
    "gates/web/escaping.py": 1,
    "gates/web/queue.py": 1,
    "loops/api/inputs.py": 2,
    "loops/api/parsers.py": 1,
    "loops/driver/model_calls.py": 2,
    "loops/driver/rollback.py": 1,
    "loops/engine/call_cycle.py": 1,
    "loops/engine/confidence/reducers.py": 1,
    "loops/engine/confidence/score.py": 3,
    "loops/engine/encoding/fingerprints.py": 1,
    "loops/engine/end_reports.py": 1,
    "loops/engine/failures/llm_classifier.py": 3,
    "loops/engine/failures/memory.py": 1,
    "loops/engine/rollback/plan.py": 2,
    "loops/engine/tool_calls/xml_calls.py": 1,
    "loops/engine/verification/environment.py": 3,
    "loops/llm/anthropic/request.py": 1,
    "loops/llm/arguments.py": 3,
    "loops/llm/replay.py": 2,
    "loops/orchestrator.py": 3,
    "loops/services/people.py": 1,
    "loops/services/policies.py": 3,
    "loops/services/steering.py": 1,
    "loops/services/submission.py": 3,
    "loops/services/workspaces.py": 2,
    "loops/storage/rows.py": 10,
    "loops/tools/builtin/file_restore.py": 1,
    "loops/tools/canonical.py": 1,
    "loops/tools/diffs.py": 9,
    "loops/tools/execution.py": 1,
    "loops/tools/gateway.py": 4,
    "loops/tools/sandbox/capability.py": 1,
    "loops/tools/sandbox/safe_paths.py": 3,
    "loops/web/command_palette.py": 1,
    "loops/web/runs.py": 1,
}
"""File -> how many there are, most of them in the words of an error."""


def cuts(tree: ast.Module) -> int:
    """How many slices of it begin at the start and end at a plain number."""
    return sum(
        isinstance(node, ast.Slice)
        and node.lower is None
        and isinstance(node.upper, ast.Constant)
        and isinstance(node.upper.value, int)
        and node.upper.value >= SHORTEST
        for node in ast.walk(tree)
    )


def test_figures_without_a_name_become_fewer() -> None:
    found: Counter[str] = Counter()
    for part in ("loops", "gates", "agentops"):
        for file in (ROOT / part).rglob("*.py"):
            if not SKIPPED & set(file.parts):
                found[str(file.relative_to(ROOT))] = cuts(ast.parse(file.read_text()))
    more = {file: count for file, count in found.items() if count > ALLOWED.get(file, 0)}
    assert not more, "cut by loops.engine.text.truncation, at a figure with a name"
    assert not {file for file, count in ALLOWED.items() if found[file] < count}, "lower the number here"


def test_a_new_one_is_noticed() -> None:
    assert cuts(ast.parse("x[:200], x[: n + 1], x[-300:], x[:3], x[5:200], x[:LONGEST]")) == 1
