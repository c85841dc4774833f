"""Read what a test run left behind: JUnit XML, coverage, or the last lines it printed (SPEC G1, L2). Pure.

All of it was written by code that nobody trusts: documents are read as a stream without entities, every number of
elements, every text and every count is bounded, and what cannot be read is None, never an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from loops.engine.values import Json
from loops.tools.clean import clean_text

LARGEST = 10 << 20
"""Bytes of one document."""
MOST_ELEMENTS, DEEPEST = 200_000, 64
MOST_FAILURES, LONGEST_TEXT, LONGEST_NAME = 50, 2_000, 300
READ_OF_OUTPUT = 256 * 1024
_KEPT_OF_DETAILS = 4_000
_UNREADABLE = (ParseError, DefusedXmlException, ValueError, LookupError, RecursionError)


@dataclass(frozen=True, slots=True)
class Failure:
    name: str
    message: str
    location: str


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one test run; ``failed`` includes ``errors``. ``source``: "junit" or "text"."""

    passed: int
    failed: int
    skipped: int = 0
    errors: int = 0
    failures: tuple[Failure, ...] = ()
    source: str = "junit"

    def plus(self, other: Report) -> Report:
        """Both documents as one run."""
        return Report(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.errors + other.errors,
            (*self.failures, *other.failures)[:MOST_FAILURES],
            self.source,
        )

    def as_data(self) -> dict[str, Json]:
        """For the result of a tool call."""
        failures: list[Json] = [{"name": f.name, "message": f.message, "location": f.location} for f in self.failures]
        total = self.passed + self.failed + self.skipped
        counts: dict[str, Json] = {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "total": total,
        }
        return counts | {"errors": self.errors, "failures": failures, "source": self.source}


def junit(data: bytes) -> Report | None:
    """The counts of a JUnit document as pytest, jest-junit, gotestsum, surefire and their like write it."""
    reader = _Cases()
    if not _parse(data, reader) or not reader.is_junit:
        return None
    return Report(
        passed=max(0, reader.cases - reader.failed - reader.skipped),
        failed=reader.failed,
        skipped=reader.skipped,
        errors=reader.errors,
        failures=tuple(reader.failures),
    )


def coverage(data: bytes) -> float | None:
    """The share 0..1 of lines that were run: Cobertura XML, coverage.py's JSON, or istanbul's JSON summary."""
    if len(data) > LARGEST:
        return None
    if data.lstrip()[:1] == b"{":
        return _coverage_of_json(data)
    reader = _Root()
    _parse(data, reader, with_dtd=True)
    return _share(reader.attributes.get("line-rate"), 1) if reader.name == "coverage" else None


def text_summary(output: str) -> Report | None:
    """The counts that a test runner printed at its end; None when no runner known here did."""
    tail = _COLOUR.sub("", output[-READ_OF_OUTPUT:])
    for read in _RUNNERS:
        report = read(tail)
        if report is not None and report.passed + report.failed + report.skipped:
            return replace(report, source="text")
    return None


def text_coverage(output: str) -> float | None:
    """The share of lines covered, as coverage.py, go test and istanbul print it in their tables."""
    tail = _COLOUR.sub("", output[-READ_OF_OUTPUT:])
    for pattern in (_COVERAGE_PY, _COVERAGE_GO, _COVERAGE_JS):
        found = pattern.findall(tail)
        if found:
            return _share(found[-1], 100)
    return None


# --- XML --------------------------------------------------------------------------------------------------------------


class _Enough(ValueError):
    """The rest need not, or must not, be read."""


def _parse(data: bytes, target: Any, *, with_dtd: bool = False) -> bool:
    """Feed a document to ``target``; was it whole? Cobertura names a DTD, which is never fetched."""
    if len(data) > LARGEST:
        return False
    parser = DefusedXMLParser(target=target, forbid_dtd=not with_dtd)
    try:
        parser.feed(data)
        parser.close()
    except _UNREADABLE:
        return False
    return True


class _Root:
    """Only the outermost element."""

    def __init__(self) -> None:
        self.name = ""
        self.attributes: dict[str, str] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = _local(tag), dict(attributes)
        raise _Enough

    def close(self) -> None:
        """Nothing is left to do."""


class _Cases:
    """Counts test cases and keeps the first failures, without keeping the document."""

    def __init__(self) -> None:
        self.is_junit = False
        self.cases = self.failed = self.skipped = self.errors = 0
        self.failures: list[Failure] = []
        self._elements = self._depth = 0
        self._case: dict[str, str] = {}
        self._state = ""
        self._message = ""
        self._details: list[str] = []
        self._size = 0
        self._reads = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        self._depth += 1
        if self._elements > MOST_ELEMENTS or self._depth > DEEPEST:
            raise _Enough
        match _local(tag):
            case "testsuites" | "testsuite":
                self.is_junit = True
            case "testcase":
                self._case, self._state, self._message = dict(attributes), "", ""
                self._details, self._size = [], 0
            case "failure" | "error" as kind if not self._state.startswith(("failure", "error")):
                self._state, self._message, self._reads = kind, attributes.get("message", ""), True
            case "skipped" if not self._state:
                self._state = "skipped"

    def data(self, text: str) -> None:
        if self._reads:
            self._details.append(text[-_KEPT_OF_DETAILS:])
            self._size += len(self._details[-1])
            while self._size > 2 * _KEPT_OF_DETAILS:
                self._size -= len(self._details.pop(0))

    def end(self, tag: str) -> None:
        self._depth -= 1
        name = _local(tag)
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
                self.failures.append(_failure(self._case, self._message, "".join(self._details).strip()))
        self._state = ""


def _failure(case: dict[str, str], message: str, details: str) -> Failure:
    last = details.rsplit("\n", 1)[-1]
    place = last.split(": ")[0] if last.count(":") >= 2 else case.get("file") or case.get("classname") or ""
    if case.get("line") and place == case.get("file"):
        place = f"{place}:{case['line']}"
    name = f"{case.get('classname', '')}::{case.get('name', '')}"
    return Failure(
        name=clean_text(name)[:LONGEST_NAME],
        message=clean_text(message or details)[:LONGEST_TEXT],
        location=clean_text(place)[:LONGEST_NAME],
    )


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


# --- coverage ---------------------------------------------------------------------------------------------------------

_COVERAGE_PY = re.compile(r"^TOTAL\s.*?\s(\d{1,3}(?:\.\d+)?)%\s*$", re.MULTILINE)
_COVERAGE_GO = re.compile(r"coverage: (\d{1,3}(?:\.\d+)?)% of statements")
_COVERAGE_JS = re.compile(r"^All files\s*\|\s*(\d{1,3}(?:\.\d+)?)\s*\|", re.MULTILINE)


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


# --- text -------------------------------------------------------------------------------------------------------------

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_COUNTED = re.compile(r"(\d{1,7}) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)\b")
_PYTEST = re.compile(
    r"^(?:=+ )?((?:\d{1,7} [a-z]+(?:, )?)+) in \d[\d.]*s(?: \([\d:, a-z]+\))?(?: =+)?\s*$", re.MULTILINE
)
_RAN = re.compile(r"^Ran (\d{1,7}) tests? in ", re.MULTILINE)
_ENDED = re.compile(r"^(?:OK|FAILED)(?: \(([^)\n]{0,200})\))?\s*$", re.MULTILINE)
_EQUALS = re.compile(r"(failures|errors|skipped|unexpected successes|expected failures)=(\d{1,7})")
_JEST = re.compile(r"^\s*Tests:?\s+((?:\d{1,7} \w+(?:, | \| )?)+)", re.MULTILINE)
_CARGO = re.compile(r"^test result: \w+\. (\d{1,7}) passed; (\d{1,7}) failed; (\d{1,7}) ignored", re.MULTILINE)
_GO = re.compile(r"^\s*--- (PASS|FAIL|SKIP): ", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(ok|FAIL)\s+\S+\s+(?:\d[\d.]*s|\(cached\)|\[build failed\])", re.MULTILINE)
_MOCHA = re.compile(r"^\s+(\d{1,7}) (passing|failing|pending)\b", re.MULTILINE)
_NODE = re.compile(r"^[#\u2139] (pass|fail|cancelled|skipped|todo) (\d{1,7})\s*$", re.MULTILINE)
_RSPEC = re.compile(
    r"^(\d{1,7}) examples?, (\d{1,7}) failures?(?:, (\d{1,7}) pending)?"
    r"(?:, (\d{1,7}) errors? occurred outside of examples)?\s*$",
    re.MULTILINE,
)
_PHPUNIT = re.compile(
    r"^(?:OK \((\d{1,7}) tests?, |Tests: (\d{1,7}), Assertions: \d{1,7}(.{0,200})\.\s*$)", re.MULTILINE
)
_PHPUNIT_PARTS = re.compile(r"(Errors|Failures|Skipped|Incomplete): (\d{1,7})")


def _pytest(text: str) -> Report | None:
    found = _PYTEST.findall(text)
    counts = _counts(_COUNTED.findall(found[-1])) if found else {}
    if not counts:
        return None
    errors = counts.get("error", 0) + counts.get("errors", 0)
    passed = counts.get("passed", 0) + counts.get("xpassed", 0)
    skipped = counts.get("skipped", 0) + counts.get("xfailed", 0)
    return Report(passed, counts.get("failed", 0) + errors, skipped, errors)


def _unittest(text: str) -> Report | None:
    ran, ended = _RAN.findall(text), _ENDED.findall(text)
    if not ran or not ended:
        return None
    counts = {name: int(number) for name, number in _EQUALS.findall(ended[-1])}
    failed = counts.get("failures", 0) + counts.get("errors", 0) + counts.get("unexpected successes", 0)
    skipped = counts.get("skipped", 0) + counts.get("expected failures", 0)
    return Report(max(0, int(ran[-1]) - failed - skipped), failed, skipped, counts.get("errors", 0))


def _jest(text: str) -> Report | None:
    found = _JEST.findall(text)
    if not found:
        return None
    counts = _counts(re.findall(r"(\d{1,7}) (passed|failed|skipped|todo)", found[-1]))
    return Report(counts.get("passed", 0), counts.get("failed", 0), counts.get("skipped", 0) + counts.get("todo", 0))


def _cargo(text: str) -> Report | None:
    found = _CARGO.findall(text)
    passed, failed, ignored = (sum(int(row[column]) for row in found) for column in range(3))
    return Report(passed, failed, ignored) if found else None


def _go(text: str) -> Report | None:
    """Single tests where ``-v`` names them, else packages: without it only the tests that fail have a line."""
    found = _GO.findall(text)
    if found and ("=== RUN" in text or "PASS" in found):
        return Report(found.count("PASS"), found.count("FAIL"), found.count("SKIP"))
    packages = _GO_PACKAGE.findall(text)
    return Report(packages.count("ok"), packages.count("FAIL")) if packages else None


def _mocha(text: str) -> Report | None:
    counts = _counts(_MOCHA.findall(text))
    if not counts:
        return None
    return Report(counts.get("passing", 0), counts.get("failing", 0), counts.get("pending", 0))


def _node(text: str) -> Report | None:
    counts = {name: int(number) for name, number in _NODE.findall(text)}
    if not counts.keys() >= {"pass", "fail"}:
        return None
    failed = counts["fail"] + counts.get("cancelled", 0)
    return Report(counts["pass"], failed, counts.get("skipped", 0) + counts.get("todo", 0))


def _rspec(text: str) -> Report | None:
    found = _RSPEC.findall(text)
    if not found:
        return None
    examples, failures, pending, outside = (int(number or 0) for number in found[-1])
    return Report(max(0, examples - failures - pending), failures + outside, pending, outside)


def _phpunit(text: str) -> Report | None:
    found = _PHPUNIT.findall(text)
    if not found:
        return None
    good, total, parts = found[-1]
    counts = {name: int(number) for name, number in _PHPUNIT_PARTS.findall(parts)}
    errors = counts.get("Errors", 0)
    failed, skipped = errors + counts.get("Failures", 0), counts.get("Skipped", 0) + counts.get("Incomplete", 0)
    return Report(max(0, int(good or total) - failed - skipped), failed, skipped, errors)


def _counts(found: list[tuple[str, str]]) -> dict[str, int]:
    return {name: int(number) for number, name in found}


_RUNNERS: tuple[Callable[[str], Report | None], ...] = (
    _pytest,
    _unittest,
    _jest,
    _cargo,
    _go,
    _mocha,
    _node,
    _rspec,
    _phpunit,
)
