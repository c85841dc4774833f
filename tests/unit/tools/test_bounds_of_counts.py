"""Counts of tests that may lack something say what (SPEC X5, G1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loops.templatetags.loops import tests as tag_of
from loops.tools import reports, runners
from loops.tools.builtin import test_results
from loops.tools.builtin.test_results import NOT_COUNTED, measured, with_notes
from loops.tools.limits import Limits
from loops.tools.reports import junit
from loops.tools.reports.junit import DEEPEST, MOST_ELEMENTS
from loops.tools.reports.report import LONGEST_TEXT, MOST_FAILURES
from loops.tools.sandbox.process import Finished
from loops.tools.sandbox.usage.ceilings import met
from loops.tools.workspace import Workspace

pytestmark = pytest.mark.spec("X5", "G1")
ONE = '<testsuite><testcase name="a"/></testsuite>'


def counted(folder: Path, printed: str = "", told: Sequence[bytes] = ()) -> dict[str, Any]:
    return measured(Workspace(str(folder), Limits()), {}, Finished(0, printed.encode(), b"", 1), told)


def surefire(folder: Path, count: int) -> None:
    there = folder / "target/surefire-reports"
    there.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (there / f"TEST-{number:04}.xml").write_text(ONE)
        (there / f"{number:04}.txt").write_text("what else lies there counts for nothing")


def test_documents_beyond_the_bound_are_said(tmp_path: Path) -> None:
    surefire(tmp_path, test_results.MOST_DOCUMENTS)
    data = counted(tmp_path)
    assert (data["passed"], data.get(NOT_COUNTED)) == (test_results.MOST_DOCUMENTS, None)
    surefire(tmp_path, test_results.MOST_DOCUMENTS + 3)
    data = counted(tmp_path)
    said = "3 of the documents in target/surefire-reports, beyond the first 1,000"
    assert (data["passed"], data[NOT_COUNTED]) == (test_results.MOST_DOCUMENTS, [said])


def test_a_document_that_is_too_large_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "junit.xml").write_text(ONE)
    assert NOT_COUNTED not in counted(tmp_path)
    (tmp_path / "junit.xml").write_text(ONE + " " * reports.LARGEST)
    data = counted(tmp_path, printed="==== 3 passed in 0.1s ====")
    assert (data["passed"], data[NOT_COUNTED]) == (3, ["junit.xml, which is larger than 10,485,760 bytes"])


def test_a_document_of_too_many_elements_is_said(tmp_path: Path) -> None:
    said = "a document of more than 200,000 elements, or 64 within one another"
    many = f"<testsuite>{'<p/>' * MOST_ELEMENTS}</testsuite>".encode()
    deep = f"<testsuite>{'<p>' * DEEPEST}{'</p>' * DEEPEST}</testsuite>".encode()
    for document in (many, deep):
        assert counted(tmp_path, told=[document]) == {NOT_COUNTED: [said]}
    fits = f"<testsuite>{'<p/>' * 9}</testsuite>".encode()
    assert NOT_COUNTED not in counted(tmp_path, told=[fits])


def test_output_that_was_not_looked_through_is_said(tmp_path: Path) -> None:
    one = "test result: ok. 4 passed; 0 failed; 0 ignored\n"
    assert NOT_COUNTED not in counted(tmp_path, one)
    data = counted(tmp_path, one + "x" * reports.READ_OF_OUTPUT + "\n" + one)
    assert data["passed"] == 4
    (said,) = data[NOT_COUNTED]
    assert said.startswith("what was printed before the last 262,144 of 262,2")
    assert NOT_COUNTED not in counted(tmp_path, "x" * reports.READ_OF_OUTPUT * 2, [ONE.encode()]), "a document has them"


def test_people_and_the_model_read_what_is_not_counted() -> None:
    assert with_notes("1 passed\nexit code 0", ["a", "b"]) == "1 passed\n[not counted: a; b]\nexit code 0"
    assert with_notes("1 passed\nexit code 0", None) == "1 passed\nexit code 0"
    assert tag_of({"passed": 4, "failed": 0}) == {"look": "good", "said": "4 passed"}
    assert tag_of({"passed": 4, "failed": 0, NOT_COUNTED: ["a"]}) == {
        "look": "wait",
        "said": "4 passed, not all counted",
    }


def test_failures_that_are_not_named_are_counted() -> None:
    case = '<testcase name="n"><failure message="m"/></testcase>'
    report = junit(f"<testsuite>{case * (MOST_FAILURES + 4)}</testsuite>".encode())
    assert report is not None
    data = report.as_data()
    assert (data["failed"], len(data["failures"]), data["failures_left_out"]) == (54, 50, 4)  # type: ignore[arg-type]
    assert "failures_left_out" not in junit(f"<testsuite>{case}</testsuite>".encode()).as_data()  # type: ignore[union-attr]


def test_the_text_of_a_failure_says_of_how_much_it_is() -> None:
    def message(details: str) -> str:
        report = junit(f'<testsuite><testcase name="n"><failure>{details}</failure></testcase></testsuite>'.encode())
        assert report is not None
        return report.failures[0].message

    assert message("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
    for length in (LONGEST_TEXT + 1, 50_000):
        assert message("x" * length).endswith(f"… ({length:,} characters)")
        assert len(message("x" * length)) == LONGEST_TEXT


def test_where_a_command_was_not_looked_at_is_said() -> None:
    assert runners.not_looked_at(["bash", "-c", "pytest"]) == ""
    assert runners.not_looked_at("ls -la") == ""
    nested = "bash -c 'bash -c \"bash -c bash\\ -c\\ pytest\"'"
    assert not runners.is_test_run(nested)
    assert runners.not_looked_at(nested) == "what is in more than 3 shells within one another"
    assignments = " ".join(f"A{number}=1" for number in range(runners.MOST_WORDS))
    assert runners.is_test_run(f"A=1 {assignments[:200].rsplit(' ', 1)[0]} pytest")
    assert not runners.is_test_run(f"{assignments} pytest")
    said = "what follows the first 64 words of a command, none of them a program"
    assert runners.not_looked_at(f"{assignments} pytest") == said
    assert runners.not_looked_at(f"echo {assignments} pytest") == "", "its program was seen"
    long = "#".ljust(runners.LONGEST - 7)
    assert runners.is_test_run(["bash", "-c", f"{long}\npytest"])
    said = "what follows the first 100,000 characters of a line"
    assert runners.not_looked_at(["bash", "-c", f"{long}      \npytest"]) == said


def test_the_ceiling_that_a_command_met_is_named() -> None:
    limits = Limits()
    for words, said in {
        b"OSError: [Errno 24] Too many open files: 'x'": "1,024 open files for each process",
        b"bash: fork: Resource temporarily unavailable": "128 processes and threads at a time",
        b"MemoryError": "4,096 MiB of address space for each process",
        b"write error: No space left on device": "256 MiB in $TMPDIR",
    }.items():
        assert met(limits, b"", words) == [said]
        assert met(limits, words, b"") == [said]
    assert met(limits, b"AssertionError: 1 != 2", b"exit") == []
