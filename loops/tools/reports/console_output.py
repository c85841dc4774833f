"""The counts that test runners print at their end."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from loops.tools.reports.report import Report
from loops.tools.reports.unittest import unittest

READ_OF_OUTPUT = 256 * 1024
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_COUNTED = re.compile(r"(\d{1,7}) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)\b")
_PYTEST = re.compile(
    r"^(?:=+ )?((?:\d{1,7} [a-z]+(?:, )?)+) in \d[\d.]*s(?: \([\d:, a-z]+\))?(?: =+)?\s*$", re.MULTILINE
)
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


def text_summary(output: str) -> Report | None:
    """The counts that a test runner printed at its end; None when no runner known here did."""
    tail = tail_of(output)
    for read in _RUNNERS:
        report = read(tail)
        if report is not None and report.passed + report.failed + report.skipped:
            return replace(report, source="text")
    return None


def tail_of(output: str) -> str:
    """Where such counts stand, without colours and the line ends of terminals."""
    return _COLOUR.sub("", output[-READ_OF_OUTPUT:]).replace("\r\n", "\n")


def _pytest(text: str) -> Report | None:
    found = _PYTEST.findall(text)
    counts = _counts(_COUNTED.findall(found[-1])) if found else {}
    if not counts:
        return None
    errors = counts.get("error", 0) + counts.get("errors", 0)
    passed = counts.get("passed", 0) + counts.get("xpassed", 0)
    skipped = counts.get("skipped", 0) + counts.get("xfailed", 0)
    return Report(passed, counts.get("failed", 0) + errors, skipped, errors)


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
    unittest,
    _jest,
    _cargo,
    _go,
    _mocha,
    _node,
    _rspec,
    _phpunit,
)
