"""Title and text of a pull request with a run's result, out of what is recorded: goal, changes, what proves them.

Words of agents and of repositories stand in blocks and spans of code, where a forge reads no markup out of them: no
link, picture or mention, and no order to close an issue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.engine.state import own_tests_in_words
from loops.engine.state.evidence import Evidence, how_many
from loops.engine.text.truncation import cut, shortened
from loops.masking import known
from loops.models import ProvenanceRecord, Run
from loops.printable.text import printable, prose
from loops.storage import reader
from loops.workspaces import changed_files, patch
from loops.workspaces.changed_files import ChangedFile

TITLE_CHARS = 200
MOST_WORDS = 4_000
"""Characters of the goal, and of what the agent says it did."""
MOST_FILES, MOST_CHECKS = 100, 50
LINE_CHARS = 300
NOT_COMMITTED = "Only a completed run has a text for a pull request."
_STATUS = {
    "passed": "passed",
    "failed": "failed",
    "error": "could not be checked",
    "unproven": "not checked",
}
_TICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Text:
    """``body`` is Markdown as forges read it."""

    title: str
    body: str


def of(run: Run) -> Text:
    """Raises NoPatch where there is no result to deliver."""
    record = ProvenanceRecord.objects.filter(run=run).first()
    if run.status != Run.Status.COMPLETED or record is None:
        raise patch.NoPatch(NOT_COMMITTED)
    found = patch.portable(run)
    files = changed_files.described(found.changes)
    if not files and not found.left_out:
        raise patch.NoPatch(patch.NOTHING_CHANGED)
    report = reader.report(run.pk) or {}
    approver = str(report.get("approver") or "")
    lines = [
        *("## Goal", "", _block(run.task.goal), ""),
        *("## What was changed", "", *_changes(files, found.left_out), ""),
        *_result(str(report.get("result") or "")),
        *("## What proves it", "", *_proofs(report.get("checks") or ()), ""),
        *_levels(report.get("levels") or {}, approver),
        f"Accepted by {_span(approver)}." if approver else "No person reviewed the result.",
        "",
        f"Made by the agent {_span(run.agent.name)}. Every step of the run, and its record: {patch.link(run)}",
        f"Record: `{bytes(record.hash).hex()}`",
        "",
    ]
    title = shortened(patch.one_line(run.task.title), TITLE_CHARS)
    return Text(known().text(title), known().text("\n".join(lines)))


def _changes(files: Sequence[ChangedFile], left_out: Sequence[str]) -> Iterator[str]:
    for file in files[:MOST_FILES]:
        source = f" from {_span(file.source)}" if file.source else ""
        yield f"- {file.what}{source}: {_span(file.path + ('/' if file.is_folder else ''))}"
    if (more := len(files) - MOST_FILES) > 0:
        yield f"- and {more:,} more"
    for line in left_out[:MOST_FILES]:
        yield f"- not part of it: {_span(line)}"


def _result(words: str) -> list[str]:
    return ["## What the agent says", "", _block(words), ""] if words.strip() else []


def _proofs(checks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not checks:
        yield "The task had no acceptance criteria."
    for check in checks[:MOST_CHECKS]:
        status = _STATUS.get(str(check.get("status")), "not known")
        command = f", by {_span(str(check['command']))}" if check.get("command") else ""
        level = f", {check['evidence']}" if check.get("evidence") in set(Evidence) else ""
        yield f"- {status}{level}: {_span(str(check.get('text', '')))}{command}"
        if check.get("why"):
            yield f"  {_span(str(check['why']))}"
        if own := own_tests_in_words.in_words(check.get("own_tests")):
            yield f"  {_span(own)}"
    if (more := len(checks) - MOST_CHECKS) > 0:
        yield f"- and {more:,} more criteria"


def _levels(counts: Mapping[str, int], approver: str) -> list[str]:
    return [f"Criteria: {how_many(counts, _span(approver) if approver else '')}.", ""] if counts else []


def _block(text: str) -> str:
    """Longer fences than any in the text, so nothing in it ends the block."""
    shown = prose(cut(text.strip(), MOST_WORDS))
    fence = "`" * max(3, _longest_ticks(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _span(text: str) -> str:
    """The same within a line."""
    shown = shortened(printable(" ".join(text.split())), LINE_CHARS) or "-"
    ticks = "`" * (_longest_ticks(shown) + 1)
    room = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
