"""The single tests of a criterion's command beside those of an earlier check of the same run (SPEC L1, ADR 0078)."""

from __future__ import annotations

from loops.engine.values import Json
from loops.engine.verification.report import COMPLETE, MISSING, NEW, NOTED, OUTCOMES, REPORT
from loops.tools.registry import ToolRun
from loops.tools.test_sessions.document import outcomes, written
from loops.tools.test_sessions.session import Outcome
from loops.tools.test_sessions.verdict import Verdict, noted


def kept_outcomes(run: ToolRun) -> dict[str, Outcome]:
    """What the earlier check saw; nothing where there was none, or its report is not kept any more."""
    try:
        return outcomes(run.read_blob(run.context.tests_before)) if run.context.tests_before else {}
    except KeyError:
        return {}


def compared(heard: Verdict, run: ToolRun) -> dict[str, Json]:
    """For the data of a result: its tests, where their list is kept, how many are missing, and what else is told."""
    kept: dict[str, Json] = {}
    if heard.countable:
        kept = {REPORT: run.save_blob(written(heard)), OUTCOMES: dict[str, Json](heard.tests)}
        kept |= {NEW: list[Json](heard.new)} if heard.new is not None else {}
    missing: dict[str, Json] = {MISSING: len(heard.missing)} if heard.countable and heard.missing else {}
    words = noted(heard)
    if heard.is_whole:
        kept[COMPLETE] = True
    return kept | missing | ({NOTED: list[Json](words)} if words else {})
