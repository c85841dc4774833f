"""What a test run left in the workspace and on its output: counts, failures and coverage as data (SPEC G1, L2)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.tools import reports
from loops.tools.output import clean_text
from loops.tools.sandbox.process import Finished
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.test_sessions.verdict import UNHEARD, Verdict
from loops.tools.workspace import Workspace

MOST_DOCUMENTS = 1_000
_IN_PROJECT = (
    "junit.xml",
    "test-results/junit.xml",
    "reports/junit.xml",
    "target/nextest/default/junit.xml",
    "coverage.xml",
    "coverage.json",
    "coverage/cobertura-coverage.xml",
    "coverage/coverage-summary.json",
)
MOST_NAMED, LONGEST_NAMED = 20, 200
"""Failed tests that the model is told by name, and characters of one name; the data of the result has more of both."""
_FOLDERS_IN_PROJECT = ("target/surefire-reports", "build/test-results/test")
"""Where runners write that cannot be told another place. Only what this very run wrote there counts."""
Seen = dict[str, tuple[int, int]]
NOT_COUNTED = "not_counted"
"""In the data of a result: what its counts may lack, in words (list)."""


def standing(workspace: Workspace, named: Sequence[str] = ()) -> Seen:
    """(time of change, size) of each document where runners write them, and of those that are ``named``; zeros where
    there is none."""
    found: Seen = {}
    for path in (*_IN_PROJECT, *named):
        with suppress(OSError, PathRefused):
            there = workspace.beneath.stat(path)
            found[path] = (there.st_mtime_ns, there.st_size) if there else (0, 0)
    for folder in _FOLDERS_IN_PROJECT:
        with suppress(OSError, PathRefused):
            for path, status in islice(_documents_in(workspace, folder), MOST_DOCUMENTS):
                found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _documents_in(workspace: Workspace, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    return ((path, status) for path, status in workspace.walk(folder) if path.endswith(".xml"))


def measured(
    workspace: Workspace,
    before: Seen,
    finished: Finished,
    told: Sequence[bytes] = (),
    unread: Sequence[str] = (),
    heard: Verdict = UNHEARD,
) -> dict[str, Json]:
    """Counts by single tests that were ``heard``, else by documents, else by what was printed; and the coverage, where
    anybody measured it. Under ``NOT_COUNTED`` stands what they may lack, ``unread`` before what is found here.

    ``told`` are documents that were written where the runner was told to: it may have written the same into the
    project, and that is not counted again. Of the project's own, those count that do not stand as ``before``.
    """
    lacking = [*heard.lacking, *unread, *_beyond(workspace)]
    written = list(_written(workspace, before, lacking))
    found = _heard(heard, told) or _reports(told, lacking) or _reports(written, lacking)
    printed = (finished.stdout + b"\n" + finished.stderr).decode(errors="replace")
    counted = found[0] if found else reports.text_summary(printed)
    if not found and len(printed) > reports.READ_OF_OUTPUT:
        lacking.append(f"what was printed before the last {reports.READ_OF_OUTPUT:,} of {len(printed):,} characters")
    for report in found[1:]:
        counted = counted.plus(report) if counted is not None else report
    shares = [share for share in map(reports.coverage, [*written, *told]) if share is not None]
    covered = shares[-1] if shares else reports.text_coverage(printed)
    data = counted.as_data() if counted is not None else {}
    data |= {} if covered is None else {"coverage": covered}
    return data | ({NOT_COUNTED: list[Json](lacking)} if lacking else {})


def with_notes(content: str, lacking: Json, more: Sequence[str] = ()) -> str:
    """What the model and people read of a result, with what its counts may lack and ``more`` below its first line."""
    notes = [f"[not counted: {'; '.join(map(str, lacking))}]"] if lacking and isinstance(lacking, list) else []
    first, _, rest = content.partition("\n")
    return "\n".join([first, *notes, *more, *([rest] if rest or notes else [])])


def failing(data: Mapping[str, Json]) -> list[str]:
    """A line for each failed test that has a name, of as many as are shown; whoever wrote the tests chose the names."""
    failures = data.get("failures")
    found = [one["name"] for one in failures if isinstance(one, Mapping)] if isinstance(failures, list) else []
    lines = [f"failed: {shortened(' '.join(str(name).split()), LONGEST_NAMED)}" for name in found[:MOST_NAMED]]
    failed = data.get("failed")
    more = failed - len(lines) if lines and isinstance(failed, int) else 0
    return [*lines, *([f"[{more:,} more failed]"] if more > 0 else [])]


def _beyond(workspace: Workspace) -> Iterator[str]:
    for folder in _FOLDERS_IN_PROJECT:
        with suppress(OSError, PathRefused):
            if more := sum(1 for _ in islice(_documents_in(workspace, folder), MOST_DOCUMENTS, None)):
                yield f"{more:,} of the documents in {folder}, beyond the first {MOST_DOCUMENTS:,}"


def reported(counts: dict[str, Json]) -> dict[str, Json]:
    """Counts of a command that the agent chose itself, and so may have made say anything: weaker evidence than those
    of the project's own command (``progress``)."""
    return {**counts, "reported": True}


def _heard(heard: Verdict, told: Sequence[bytes]) -> list[reports.Report]:
    """Single tests as counts; where one failed, and the rest of what it says, is in the documents."""
    if not heard.countable:
        return []
    report = heard.report()
    documents = _reports(told, []) if report.failed else []
    described = {_last(failure): failure for document in documents for failure in document.failures}
    failures = (replace(described.get(_last(failure), failure), name=failure.name) for failure in report.failures)
    return [replace(report, failures=tuple(failures))]


def _last(failure: reports.Failure) -> str:
    return failure.name.rpartition("::")[2]


def _reports(documents: Sequence[bytes], lacking: list[str]) -> list[reports.Report]:
    return [report for document in documents if (report := reports.junit(document, lacking)) is not None]


def _written(workspace: Workspace, before: Seen, lacking: list[str]) -> Iterator[bytes]:
    for path, state in standing(workspace, tuple(before)).items():
        if before.get(path) != state:
            with suppress(OSError, PathRefused):
                if state[1] > reports.LARGEST:
                    lacking.append(f"{clean_text(path)}, which is larger than {reports.LARGEST:,} bytes")
                    continue
                yield workspace.beneath.read(path, reports.LARGEST)[0]
