"""JUnit XML, as nearly every test runner can write it."""

from __future__ import annotations

from loops.engine.text.truncation import shortened
from loops.tools.output import clean_text
from loops.tools.reports.documents import Enough, local_name, parse
from loops.tools.reports.report import LONGEST_NAME, LONGEST_TEXT, MOST_FAILURES, Failure, Report

MOST_ELEMENTS, DEEPEST = 200_000, 64
_KEPT_OF_DETAILS = 4_000


def junit(data: bytes, lacking: list[str] | None = None) -> Report | None:
    """The counts of a JUnit document as pytest, jest-junit, gotestsum, surefire and their like write it. ``lacking``
    learns of a document that is too much to be read."""
    reader = _Cases()
    if not parse(data, reader) or not reader.is_junit:
        if reader.is_too_much and lacking is not None:
            lacking.append(f"a document of more than {MOST_ELEMENTS:,} elements, or {DEEPEST} within one another")
        return None
    return Report(
        passed=max(0, reader.cases - reader.failed - reader.skipped),
        failed=reader.failed,
        skipped=reader.skipped,
        errors=reader.errors,
        failures=tuple(reader.failures),
    )


class _Cases:
    """Counts test cases and keeps the first failures, without keeping the document."""

    def __init__(self) -> None:
        self.is_junit = self.is_too_much = False
        self.cases = self.failed = self.skipped = self.errors = 0
        self.failures: list[Failure] = []
        self._elements = self._depth = 0
        self._case: dict[str, str] = {}
        self._state = ""
        self._message = ""
        self._details: list[str] = []
        self._size = self._whole = 0
        self._reads = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        self._depth += 1
        if self._elements > MOST_ELEMENTS or self._depth > DEEPEST:
            self.is_too_much = True
            raise Enough
        match local_name(tag):
            case "testsuites" | "testsuite":
                self.is_junit = True
            case "testcase":
                self._case, self._state, self._message = dict(attributes), "", ""
                self._details, self._size, self._whole = [], 0, 0
            case "failure" | "error" as kind if not self._state.startswith(("failure", "error")):
                self._state, self._message, self._reads = kind, attributes.get("message", ""), True
            case "skipped" if not self._state:
                self._state = "skipped"

    def data(self, text: str) -> None:
        if self._reads:
            self._details.append(text[-_KEPT_OF_DETAILS:])
            self._size += len(self._details[-1])
            self._whole += len(text)
            while self._size > 2 * _KEPT_OF_DETAILS:
                self._size -= len(self._details.pop(0))

    def end(self, tag: str) -> None:
        self._depth -= 1
        name = local_name(tag)
        if name in ("failure", "error"):
            self._reads = False
        elif name == "testcase":
            self._count()

    def close(self) -> None:
        """Nothing is left to do."""

    def _count(self) -> None:
        self.cases += 1
        self.skipped += self._state == "skipped"
        self.errors += self._state == "error"
        if self._state in ("failure", "error"):
            self.failed += 1
            if len(self.failures) < MOST_FAILURES:
                kept = "".join(self._details)
                left_out = self._whole - len(kept)
                self.failures.append(_failure(self._case, self._message, kept.strip(), left_out))
        self._state = ""


def _failure(case: dict[str, str], message: str, details: str, left_out: int) -> Failure:
    """``left_out``: characters before ``details`` that were not kept; the end of them says what went wrong."""
    last = details.rsplit("\n", 1)[-1]
    place = last.split(": ")[0] if last.count(":") >= 2 else case.get("file") or case.get("classname") or ""
    if case.get("line") and place == case.get("file"):
        place = f"{place}:{case['line']}"
    said = clean_text(message or details)
    name = f"{case.get('classname', '')}::{case.get('name', '')}"
    return Failure(
        name=shortened(clean_text(name), LONGEST_NAME),
        message=shortened(said, LONGEST_TEXT, 0 if message else len(said) + left_out),
        location=shortened(clean_text(place), LONGEST_NAME),
    )
