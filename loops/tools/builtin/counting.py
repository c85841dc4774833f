"""What a test run left in the workspace and on its output: counts, failures and coverage as data (SPEC G1, L2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from loops.engine.values import Json
from loops.tools import reports
from loops.tools.sandbox.beneath import PathRefused
from loops.tools.sandbox.process import Finished
from loops.tools.workspace import Workspace

MOST_DOCUMENTS = 200
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
_FOLDERS_IN_PROJECT = ("target/surefire-reports", "build/test-results/test")
"""Where runners write that cannot be told another place. Only what this very run wrote there counts."""
Seen = dict[str, tuple[int, int]]


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
            for path, status in islice(workspace.walk(folder), MOST_DOCUMENTS):
                if path.endswith(".xml"):
                    found[path] = (status.st_mtime_ns, status.st_size)
    return found


def measured(workspace: Workspace, before: Seen, finished: Finished, told: Sequence[bytes] = ()) -> dict[str, Json]:
    """Counts by documents, else by what was printed; and the coverage, where anybody measured it.

    ``told`` are documents that were written where the runner was told to: it may have written the same into the
    project, and that is not counted again. Of the project's own, those count that do not stand as ``before``.
    """
    written = list(_written(workspace, before))
    found = _reports(told) or _reports(written)
    printed = (finished.stdout + b"\n" + finished.stderr).decode(errors="replace")
    counted = found[0] if found else reports.text_summary(printed)
    for report in found[1:]:
        counted = counted.plus(report) if counted is not None else report
    shares = [share for share in map(reports.coverage, [*written, *told]) if share is not None]
    covered = shares[-1] if shares else reports.text_coverage(printed)
    data = counted.as_data() if counted is not None else {}
    return data if covered is None else {**data, "coverage": covered}


def reported(counts: dict[str, Json]) -> dict[str, Json]:
    """Counts of a command that the agent chose itself, and so may have made say anything: weaker evidence than those
    of the project's own command (``progress``)."""
    return {**counts, "reported": True}


def _reports(documents: Sequence[bytes]) -> list[reports.Report]:
    return [report for report in map(reports.junit, documents) if report is not None]


def _written(workspace: Workspace, before: Seen) -> Iterator[bytes]:
    for path, state in standing(workspace, tuple(before)).items():
        if before.get(path) != state:
            with suppress(OSError, PathRefused):
                yield workspace.beneath.read(path, reports.LARGEST)[0]
