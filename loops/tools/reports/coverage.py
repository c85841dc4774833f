"""The share of lines that tests ran, from documents or from what was printed."""

from __future__ import annotations

import json
import re
from typing import Any

from loops.tools.reports.console_output import tail_of
from loops.tools.reports.documents import LARGEST, Enough, local_name, parse

_COVERAGE_PY = re.compile(r"^TOTAL\s.*?\s(\d{1,3}(?:\.\d+)?)%\s*$", re.MULTILINE)
_COVERAGE_GO = re.compile(r"coverage: (\d{1,3}(?:\.\d+)?)% of statements")
_COVERAGE_JS = re.compile(r"^All files\s*\|\s*(\d{1,3}(?:\.\d+)?)\s*\|", re.MULTILINE)


def coverage(data: bytes) -> float | None:
    """The share 0..1 of lines that were run: Cobertura XML, coverage.py's JSON, or istanbul's JSON summary."""
    if len(data) > LARGEST:
        return None
    if data.lstrip()[:1] == b"{":
        return _coverage_of_json(data)
    reader = _Root()
    parse(data, reader, with_dtd=True)
    return _share(reader.attributes.get("line-rate"), 1) if reader.name == "coverage" else None


def text_coverage(output: str) -> float | None:
    """The share of lines covered, as coverage.py, go test and istanbul print it in their tables."""
    tail = tail_of(output)
    for pattern in (_COVERAGE_PY, _COVERAGE_GO, _COVERAGE_JS):
        found = pattern.findall(tail)
        if found:
            return _share(found[-1], 100)
    return None


class _Root:
    """Only the outermost element."""

    def __init__(self) -> None:
        self.name = ""
        self.attributes: dict[str, str] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = local_name(tag), dict(attributes)
        raise Enough

    def close(self) -> None:
        """Nothing is left to do."""


def _coverage_of_json(data: bytes) -> float | None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    python, js = _part(document, "totals"), _part(document, "total")
    found = python.get("percent_covered")
    return _share(_part(js, "lines").get("pct") if found is None else found, 100)


def _part(value: Any, name: str) -> dict[str, Any]:
    part = value.get(name) if isinstance(value, dict) else None
    return part if isinstance(part, dict) else {}


def _share(value: object, whole: int) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        share = float(value) / whole
    except (ValueError, OverflowError):
        return None
    return round(share, 4) if 0 <= share <= 1 else None
