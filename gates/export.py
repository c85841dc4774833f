"""Decisions as a file, row by row: JSON lines for programs, CSV for spreadsheets."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

from django.http import StreamingHttpResponse

from gates.models import Decision
from gates.querysets import DecisionQuerySet

COLUMNS = (
    "id", "created_at", "verdict", "decided_by", "reason", "payload", "digest", "gate", "kind", "title", "tool", "risk",
    "confidence", "opened_at", "policy_version", "run", "agent", "project",
    "confidence_band", "confidence_calibrated",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def response(decisions: DecisionQuerySet, form: str) -> StreamingHttpResponse:
    """A download of ``decisions`` as "jsonl" or "csv"."""
    rows = (_row(decision) for decision in decisions.with_names().order_by("id").iterator(500))
    lines, media_type = (_csv(rows), "text/csv") if form == "csv" else (_jsonl(rows), "application/x-ndjson")
    answer = StreamingHttpResponse(lines, content_type=f"{media_type}; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="decisions.{form}"'
    return answer


def _row(decision: Decision) -> dict[str, Any]:
    gate = decision.gate
    return {
        "id": str(decision.pk),
        "created_at": decision.created_at.isoformat(),
        "verdict": decision.verdict,
        "decided_by": decision.decided_by.get_username() if decision.decided_by else None,
        "reason": decision.reason,
        "payload": decision.payload,
        "digest": decision.digest,
        "gate": str(gate.pk),
        "kind": gate.kind,
        "title": gate.title,
        "tool": gate.tool,
        "risk": gate.risk,
        "confidence": gate.confidence,
        "opened_at": gate.opened_at.isoformat(),
        "policy_version": gate.policy_version,
        "run": str(gate.run_id),
        "agent": gate.run.agent.name,
        "project": gate.project.slug,
        "confidence_band": gate.confidence_band,
        "confidence_calibrated": gate.confidence_calibrated,
    }


def _jsonl(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


class _Line:
    """A file that gives back what is written to it."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for row in rows:
        yield writer.writerow([_cell(row[name]) for name in COLUMNS])


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula is kept as text."""
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
