"""What the standard library's runner of Python prints: it writes no document, so its text has to do."""

from __future__ import annotations

import re

from loops.engine.text.truncation import shortened
from loops.tools.output import clean_text
from loops.tools.reports.report import LONGEST_NAME, LONGEST_TEXT, MOST_FAILURES, Failure, Report

_RAN = re.compile(r"^Ran (\d{1,7}) tests? in ", re.MULTILINE)
_ENDED = re.compile(r"^(?:OK|FAILED)(?: \(([^)\n]{0,200})\))?\s*$", re.MULTILINE)
_EQUALS = re.compile(r"(failures|errors|skipped|unexpected successes|expected failures)=(\d{1,7})")
_RULE = "=" * 70 + "\n"
_FAILED = re.compile(r"(?:FAIL|ERROR): (\S{1,300})(?: \(([^\s()]{1,300})\))?(.{0,300})$", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"\n]{1,300})", line (\d{1,7}), in (\w{1,300})', re.MULTILINE)
_ERROR = re.compile(r"^[A-Za-z_][\w.]{0,200}(?:: .{0,2000})?$", re.MULTILINE)
_FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")


def unittest(text: str) -> Report | None:
    """Counts and failures; several failed subtests of one test are one failed test."""
    ran, ended = _RAN.findall(text), _ENDED.findall(text)
    if not ran or not ended:
        return None
    counts = {name: int(number) for name, number in _EQUALS.findall(ended[-1])}
    failures = [found for block in text.split(_RULE)[1:] if (found := _FAILED.match(block))]
    again = len(failures) - len({(found[1], found[2]) for found in failures})
    outside = sum(found[1] in _FIXTURES for found in failures)
    failed = sum(counts.get(kind, 0) for kind in ("failures", "errors", "unexpected successes")) - again
    skipped = counts.get("skipped", 0) + counts.get("expected failures", 0)
    return Report(
        passed=max(0, int(ran[-1]) - (failed - outside) - skipped),
        failed=max(0, failed),
        skipped=skipped,
        errors=counts.get("errors", 0),
        failures=tuple(_failure(found) for found in failures[:MOST_FAILURES]),
    )


def _failure(found: re.Match[str]) -> Failure:
    block = found.string[found.end() :].partition("\n\n" + "-" * 70)[0]
    test, place = found[1], (found[2] or "").removesuffix(f".{found[1]}")
    frames = list(_FRAME.finditer(block))
    said = _ERROR.search(block, frames[-1].end() if frames else 0)
    shown = next((frame for frame in reversed(frames) if frame[3] == test), frames[-1] if frames else None)
    return Failure(
        name=shortened(clean_text(f"{place}::{test}{found[3]}"), LONGEST_NAME),
        message=shortened(clean_text(said[0] if said else block.strip()), LONGEST_TEXT),
        location=shortened(clean_text(f"{shown[1]}:{shown[2]}" if shown else place), LONGEST_NAME),
    )
