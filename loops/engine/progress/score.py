"""How far is it? Tests first, artifacts next, the model's own estimate last; the method is stored with the score (G1).

The state keeps numbers only: counts of the latest test run, the widest run seen, and fingerprints of the files that
were changed, so that writing one file ten times counts once. A run of only some of the tests never raises the score.

What a command of the agent's own reports of tests is weaker evidence than the project's test command: it raises the
score to ``REPORTED_AT_MOST`` or as far as the project's tests had come, and is forgotten when those run. No score,
however high, completes a run: acceptance criteria do.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard, TypeVar

from loops.engine.state.check import CheckStatus
from loops.engine.state.measures import REPORTED, Counts, Measured
from loops.engine.state.run import RunState
from loops.engine.values import Json, ToolResult

C = TypeVar("C", bound=Counts)
ARTIFACTS_AT_MOST = 0.5
"""Files alone never prove more than half of a goal."""
REPORTED_AT_MOST = 0.9
"""A command that says that every test passes may be any command."""
MODEL_AT_MOST = 0.3
"""An opinion proves less than any file."""
COVERAGE_SHARE = 0.1
"""Of the score of tests, once their coverage is known."""
FILES_REMEMBERED = 32
"""More files than this change no score any more: so many reach ``ARTIFACTS_AT_MOST``."""
MOST_TESTS = 10**7
FIRST_FILE, CODE_FILE, OTHER_FILE = 0.2, 0.1, 0.05

CHANGED = "files_changed"
"""In the data of a command's result: files that it changed, ``FILES_REMEMBERED`` at most."""
CODE = re.compile(
    r"\.(?:pyi?|[jt]sx?|mjs|go|rs|java|kts?|scala|rb|php|[ch](?:pp|c)?|cs|swift|sh|sql|vue|html|css|exs?|hs|mli?|lua|p[lm]|r|dart)$",
    re.IGNORECASE,
)
MANIFEST = re.compile(
    r"(?:pyproject\.toml|requirements[^/]*\.txt|setup\.(?:py|cfg)|pipfile|package\.json|go\.mod|cargo\.toml|pom\.xml|"
    r"build\.gradle(?:\.kts)?|gemfile|composer\.json|mix\.exs|environment\.yml|package\.swift|pubspec\.yaml)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Progress:
    """``method``: checks, tests, tests (command), artifacts, model or none; ``detail`` has the numbers, for people."""

    score: float
    method: str
    detail: str = ""


def measure(state: RunState) -> Progress:
    """The score 0..1 by the best method there is anything for."""
    provable = [check for check in state.checks or () if check.status != CheckStatus.UNPROVEN]
    if provable:
        passed = sum(check.status == CheckStatus.PASSED for check in provable)
        return Progress(passed / len(provable), "checks", f"{passed} of {len(provable)} criteria proven")
    if state.measured.tests.widest:
        return _by_tests(state.measured)
    if state.measured.files:
        return _by_artifacts(state.measured)
    if state.measured.opinion > 0:
        score = min(MODEL_AT_MOST, state.measured.opinion)
        return Progress(score, "model", f"the model's own estimate, counted up to {MODEL_AT_MOST:.0%}")
    return Progress(0.0, "none")


def after_call(measured: Measured, tool: str, result: ToolResult) -> Measured:
    """What the outcome of a call adds: counts of a test run, or a file that was changed."""
    data = result.data
    passed, failed = data.get("passed"), data.get("failed")
    if _is_count(passed) and _is_count(failed) and passed + failed:
        if data.get("reported") is True:
            return replace(measured, reported=_after_tests(_reported_so_far(measured), passed, failed, data))
        return replace(_after_tests(measured, passed, failed, data), reported=Counts())
    if result.ok and (data.get("diff") or data.get("target")) and isinstance(path := data.get("path"), str):
        return _after_change(measured, path)
    changed = data.get(CHANGED) if result.ok else None
    for path in changed if isinstance(changed, list) else ():
        measured = _after_change(measured, path) if isinstance(path, str) else measured
    return measured


def after_step(measured: Measured, score: float, step: int) -> Measured:
    """Remember the best score and the step in which it last rose."""
    return replace(measured, best=score, risen_at=step) if score > measured.best else measured


def _reported_so_far(measured: Measured) -> Counts:
    """What the project's own tests have shown is where reports begin: how many there are, and how many of them pass."""
    shown = Counts(coverage=measured.coverage, widest=measured.widest, rate=measured.rate)
    return measured.reported if measured.reported.widest else shown


def _after_tests(before: C, passed: int, failed: int, data: Mapping[str, Json]) -> C:
    total = passed + failed
    is_whole = total >= before.widest
    return replace(
        before,
        passed=passed,
        failed=failed,
        source=str(data.get("source") or "")[:10],
        coverage=_share(data.get("coverage"), before.coverage),
        widest=max(total, before.widest),
        rate=passed / total if is_whole else min(before.rate, 1 - min(failed, before.widest) / before.widest),
    )


def _after_change(measured: Measured, path: str) -> Measured:
    fingerprint = zlib.crc32(path.encode("utf-8", "surrogatepass"))
    if fingerprint in measured.files or len(measured.files) >= FILES_REMEMBERED:
        return measured
    name = path.rsplit("/", 1)[-1]
    kind = "manifests" if MANIFEST.match(name) else "code" if CODE.search(name) else "others"
    grown = replace(measured, files=(*measured.files, fingerprint))
    return replace(grown, **{kind: getattr(grown, kind) + 1})


def _by_tests(measured: Measured) -> Progress:
    counts = measured.tests
    total = counts.passed + counts.failed
    said = f"{counts.passed} of {total} tests pass"
    if total < counts.widest:
        said += f", out of {counts.widest} seen before"
    if counts.coverage >= 0:
        said += f", {counts.coverage:.0%} covered"
    said += f" ({counts.source or 'counts'})"
    if counts is measured:
        return Progress(_score_of(counts), "tests", said)
    return Progress(min(_score_of(counts), max(REPORTED_AT_MOST, _score_of(measured))), REPORTED, said)


def _score_of(counts: Counts) -> float:
    if counts.coverage < 0:
        return counts.rate
    return counts.rate * (1 - COVERAGE_SHARE) + counts.coverage * COVERAGE_SHARE


def _by_artifacts(measured: Measured) -> Progress:
    score = FIRST_FILE + CODE_FILE * measured.code + OTHER_FILE * (measured.others + measured.manifests)
    counts = (
        (measured.code, "code file"),
        (measured.manifests, "dependency manifest"),
        (measured.others, "other file"),
    )
    said = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count)
    more = f"; more than {FILES_REMEMBERED} are not counted" if len(measured.files) >= FILES_REMEMBERED else ""
    return Progress(min(ARTIFACTS_AT_MOST, score), "artifacts", f"{said} changed{more}")


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TESTS


def _share(value: Json, present: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return present
