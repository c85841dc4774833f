"""What test runners leave behind, read from anybody: their documents, their last lines, and whatever pretends to be."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tools import reports
from loops.tools.reports import Failure, Report, coverage, junit, text_coverage, text_summary
from loops.tools.reports.junit import MOST_ELEMENTS
from loops.tools.reports.report import LONGEST_NAME, LONGEST_TEXT, MOST_FAILURES

pytestmark = pytest.mark.spec("G1", "L2")

PYTEST = b"""<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1"
failures="1" skipped="1" tests="4" time="0.041"><testcase classname="test_a" name="test_ok" time="0.001" /><testcase
classname="test_a" name="test_bad" time="0.001"><failure message="assert 1 == 2">def test_bad():
&gt;       assert 1 == 2
E       assert 1 == 2

test_a.py:5: AssertionError</failure></testcase><testcase classname="test_a" name="test_err" time="0.0"><error
message="failed on setup with &quot;RuntimeError: boom&quot;">boom</error></testcase><testcase classname="test_a"
name="test_skip" time="0.0"><skipped type="pytest.skip" message="no">test_a.py:9: no</skipped></testcase></testsuite>
</testsuites>"""
JEST = b"""<?xml version="1.0" encoding="UTF-8"?><testsuites name="jest tests" tests="2" failures="1" errors="0">
<testsuite name="sum" errors="0" failures="1" skipped="0" tests="2"><testcase classname="sum adds" name="sum adds"
time="0.003"></testcase><testcase classname="sum fails" name="sum fails" file="src/sum.test.js"><failure>Error:
expect(received).toBe(expected)
    at Object.toBe (src/sum.test.js:8:17)</failure></testcase></testsuite></testsuites>"""
GO = b"""<?xml version="1.0"?><testsuites tests="3" failures="1"><testsuite tests="3" failures="1" name="example.com/m">
<properties><property name="go.version" value="go1.22"></property></properties><testcase classname="example.com/m"
name="TestA" time="0.000000"></testcase><testcase classname="example.com/m" name="TestB"><failure message="Failed"
type="">    m_test.go:12: got 1, want 2&#xA;</failure></testcase><testcase classname="example.com/m" name="TestC">
<skipped message="=== SKIP"></skipped></testcase></testsuite></testsuites>"""
SUREFIRE = b"""<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" name="com.acme.CalcTest" tests="2"
errors="1" skipped="0" failures="0"><testcase name="adds" classname="com.acme.CalcTest"/><testcase name="divides"
classname="com.acme.CalcTest"><error message="/ by zero" type="java.lang.ArithmeticException"><![CDATA[java.lang
at com.acme.Calc.divide(Calc.java:9)]]></error><system-out>noise</system-out></testcase></testsuite>"""


@pytest.mark.parametrize(
    ("document", "counts"),
    [(PYTEST, (1, 2, 1, 1)), (JEST, (1, 1, 0, 0)), (GO, (1, 1, 1, 0)), (SUREFIRE, (1, 1, 0, 1))],
    ids=["pytest", "jest", "go", "surefire"],
)
def test_documents_of_four_runners_are_counted(document: bytes, counts: tuple[int, ...]) -> None:
    report = junit(document)
    assert report is not None
    assert (report.passed, report.failed, report.skipped, report.errors) == counts
    assert report.source == "junit"
    assert len(report.failures) == report.failed


def test_a_failure_has_name_message_and_place() -> None:
    report = junit(PYTEST)
    assert report is not None
    assert report.failures[0] == Failure("test_a::test_bad", "assert 1 == 2", "test_a.py:5")
    divides = junit(SUREFIRE)
    assert divides is not None
    assert divides.failures[0] == Failure("com.acme.CalcTest::divides", "/ by zero", "com.acme.CalcTest")


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
    + ']><testsuite><testcase name="&j;"/></testsuite>'
).encode()
HOSTILE = {
    "nothing": b"",
    "no XML": b"<not xml",
    "a billion laughs": BOMB,
    "a file": b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&a;"/></testsuite>',
    "a remote DTD": b'<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><testsuite><testcase name="&b;"/></testsuite>',
    "cut in the middle": PYTEST[:300],
    "another document": b"<html><body>12 passed</body></html>",
    "an encoding nobody has": b'<?xml version="1.0" encoding="martian"?><testsuite/>',
    "an encoding that is a lie": b'<?xml version="1.0" encoding="utf-16"?><testsuite/>',
    "bytes that are no text": bytes(range(256)) * 10,
    "zeros": b"\0" * 1000,
    "too deep": b"<testsuite>" * 5000 + b"</testsuite>" * 5000,
    "too many elements": b"<testsuite>" + b"<a/>" * (MOST_ELEMENTS + 1) + b"</testsuite>",
    "too large": b"<testsuite>" + b" " * reports.LARGEST + b"</testsuite>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_read_counts_nothing(name: str) -> None:
    assert junit(HOSTILE[name]) is None


def test_a_hundred_megabytes_take_no_memory_to_refuse() -> None:
    document = b"<testsuite>" + b"x" * (100 << 20)
    tracemalloc.start()
    assert junit(document) is None
    assert coverage(document) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 << 20


def test_long_texts_and_many_failures_are_cut() -> None:
    case = (
        f'<testcase name="{"n" * 5000}" file="a.py"><failure message="{"m" * 9000}">{"d" * 50_000}</failure></testcase>'
    )
    report = junit(f"<testsuite>{case * 80}</testsuite>".encode())
    assert report is not None
    assert report.failed == 80
    assert len(report.failures) == MOST_FAILURES
    assert len(report.failures[0].name) == LONGEST_NAME
    assert len(report.failures[0].message) == LONGEST_TEXT


def test_what_hides_in_a_name_is_cleaned() -> None:
    report = junit(b'<testsuite><testcase name="ab&#x9b;31m"><failure/></testcase></testsuite>')
    assert report is not None
    assert "\x9b" not in report.failures[0].name


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(data: bytes) -> None:
    for document in (data, PYTEST[:200] + data, b"<testsuite>" + data + b"</testsuite>", b"{" + data):
        junit(document)
        coverage(document)


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    text_summary(text * 20)
    text_coverage(text * 20)


SUMMARIES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "pytest": ("=== short test summary ===\n=== 2 failed, 5 passed, 1 skipped, 1 error in 0.12s ===\n", (5, 3, 1)),
    "pytest -q": ("..F\n1 failed, 2 passed in 0.03s\n", (2, 1, 0)),
    "pytest with minutes": ("= 3 passed, 2 warnings in 61.20s (0:01:01) =", (3, 0, 0)),
    "pytest with colours": ("12 passed, 1 xfailed, 1 xpassed in 1.0s", (13, 0, 1)),
    "unittest good": ("....\n-----\nRan 4 tests in 0.001s\n\nOK (skipped=1)\n", (3, 0, 1)),
    "unittest bad": ("Ran 6 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n", (2, 3, 1)),
    "jest": ("Tests:       1 failed, 2 skipped, 3 passed, 6 total\nSnapshots:   0 total\n", (3, 1, 2)),
    "vitest": (" Test Files  1 failed (1)\n      Tests  1 failed | 3 passed (4)\n", (3, 1, 0)),
    "go": ("ok  \texample.com/a\t0.002s\nFAIL\texample.com/b\t0.1s\nok  \texample.com/c\t(cached)\n", (2, 1, 0)),
    "go -v": ("--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n--- SKIP: TestC (0.00s)\n", (1, 1, 1)),
    "cargo": (
        "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n",
        (6, 2, 1),
    ),
    "mocha": ("  12 passing (34ms)\n  1 pending\n  2 failing\n", (12, 2, 1)),
}


@pytest.mark.parametrize("runner", SUMMARIES)
def test_the_last_lines_of_each_runner_are_counted(runner: str) -> None:
    output, expected = SUMMARIES[runner]
    report = text_summary(f"Some noise first\n{output}")
    assert report is not None
    assert (report.passed, report.failed, report.skipped) == expected
    assert report.source == "text"


@pytest.mark.parametrize(
    "output",
    [
        "",
        "All good, 12 passed I think",
        "12 passed",
        "Ran 4 tests in 0.001s",
        "no tests ran in 0.01s",
        "FAIL: something",
        "Tests: none",
        "it is passing 3 things",
        "99999999999999999999 passed in 1s",
    ],
)
def test_prose_is_no_summary(output: str) -> None:
    assert text_summary(output) is None


COVERED: dict[str, tuple[Any, float | None]] = {
    "coverage.py XML": ('<?xml version="1.0" ?><coverage version="7.4" line-rate="0.8512" branch-rate="0"/>', 0.8512),
    "cobertura with its DTD": (
        '<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">'
        '<coverage line-rate="0.5"><packages/></coverage>',
        0.5,
    ),
    "coverage.py JSON": ({"meta": {}, "totals": {"percent_covered": 72.5}}, 0.725),
    "istanbul": ({"total": {"lines": {"total": 4, "covered": 3, "pct": 75}}}, 0.75),
    "nothing measured": ({"total": {"lines": {"pct": "Unknown"}}}, None),
    "more than all": ('<coverage line-rate="1.2"/>', None),
    "less than nothing": ({"totals": {"percent_covered": -1}}, None),
    "not a number": ('<coverage line-rate="NaN"/>', None),
    "a JUnit document": ("<testsuite/>", None),
    "a list": ("[1]", None),
    "a bomb": (BOMB.decode(), None),
    "nested": ("{" + '"a":{' * 50_000, None),
}


@pytest.mark.parametrize("name", COVERED)
def test_coverage_is_a_share_or_nothing(name: str) -> None:
    document, expected = COVERED[name]
    text = document if isinstance(document, str) else json.dumps(document)
    assert coverage(text.encode()) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Name   Stmts  Miss  Cover\na.py   10  2  80%\n------\nTOTAL   10   2    80%\n", 0.8),
        ("TOTAL   10   2  4  1  77.5%\n", 0.775),
        ("ok  m 0.1s coverage: 42.9% of statements\n", 0.429),
        ("All files |   85.71 |      100 |      75 |   85.71 |\n", 0.8571),
        ("TOTAL 300%\n", None),
        ("the total is 80%", None),
    ],
)
def test_coverage_is_read_from_tables(output: str, expected: float | None) -> None:
    assert text_coverage(output) == expected


def test_documents_of_one_run_add_up() -> None:
    both = Report(1, 2, 3, 1).plus(Report(10, 0, 0, 0))
    assert (both.passed, both.failed, both.skipped, both.errors) == (11, 2, 3, 1)


def test_what_a_tool_says_of_it_is_plain() -> None:
    report = junit(PYTEST)
    assert report is not None
    data = report.as_data()
    assert json.loads(json.dumps(data)) == data
    assert data["source"] == "junit"


UNITTEST = Path(__file__).parents[2] / "data" / "runners" / "unittest.txt"


@pytest.mark.spec("X1", "G1")
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_failures_that_unittest_prints_are_read(ends: str) -> None:
    report = text_summary(UNITTEST.read_text().replace("\n", ends))
    assert report is not None
    assert [(f.name, f.message, f.location) for f in report.failures] == [
        ("test_a.A::test_err", "RuntimeError: boom", "/project/test_a.py:8"),
        ("test_a.A::test_bad", "AssertionError: 1 != 2", "/project/test_a.py:5"),
    ]


@pytest.mark.spec("G1")
def test_subtests_of_unittest_are_one_test_and_a_class_that_cannot_begin_is_none() -> None:
    source = (
        "from unittest import TestCase, main\n"
        "class A(TestCase):\n"
        "    def test_each(self):\n"
        "        for n in range(4):\n"
        "            with self.subTest(n=n): self.assertEqual(n, 0)\n"
        "    def test_good(self): pass\n"
        "class B(TestCase):\n"
        "    @classmethod\n"
        "    def setUpClass(cls): raise OSError('no')\n"
        "    def test_never(self): pass\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    report = text_summary(done.stdout + done.stderr)
    assert report is not None
    assert (report.passed, report.failed, report.errors) == (1, 2, 1), done.stderr
    assert {failure.name for failure in report.failures} >= {"__main__.A::test_each (n=1)", "__main__.B::setUpClass"}
