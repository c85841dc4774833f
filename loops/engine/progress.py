"""How far is it? Tests first, artifacts next, the model's own estimate last; the method is stored with the score (G1).

The state keeps numbers only: counts of the latest test run, the widest run seen, and fingerprints of the files that
were changed, so that writing one file ten times counts once. A run of only some of the tests never raises the score.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from typing import TypeGuard

from loops.engine.standing import Measured
from loops.engine.state import RunState
from loops.engine.values import Json, ToolResult

ARTIFACTS_AT_MOST = 0.5
"""Files alone never prove more than half of a goal."""
MODEL_AT_MOST = 0.3
"""An opinion proves less than any file."""
COVERAGE_SHARE = 0.1
"""Of the score of tests, once their coverage is known."""
FILES_REMEMBERED = 32
"""More files than this change no score any more."""
MOST_TESTS = 10**7
FIRST_FILE, CODE_FILE, OTHER_FILE = 0.2, 0.1, 0.05

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
    """``method``: checks, tests, artifacts, model or none; ``detail`` says it in numbers, for people."""

    score: float
    method: str
    detail: str = ""


def measure(state: RunState) -> Progress:
    """The score 0..1 by the best method there is anything for."""
    provable = [check for check in state.checks or () if check.status != "unproven"]
    if provable:
        passed = sum(check.status == "passed" for check in provable)
        return Progress(passed / len(provable), "checks", f"{passed} of {len(provable)} criteria proven")
    if state.measured.widest:
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
    if _is_count(passed) and _is_count(failed):
        return _after_tests(measured, passed, failed, data.get("coverage"), str(data.get("source") or ""))
    if result.ok and (data.get("diff") or data.get("target")) and isinstance(path := data.get("path"), str):
        return _after_change(measured, path)
    return measured


def after_step(measured: Measured, score: float, step: int) -> Measured:
    """Remember the best score and the step in which it last rose."""
    return replace(measured, best=score, risen_at=step) if score > measured.best else measured


def _after_tests(measured: Measured, passed: int, failed: int, coverage: Json, source: str) -> Measured:
    total = passed + failed
    if not total:
        return measured
    is_whole = total >= measured.widest
    return replace(
        measured,
        passed=passed,
        failed=failed,
        source=source[:10],
        coverage=_share(coverage, measured.coverage),
        widest=max(total, measured.widest),
        rate=passed / total if is_whole else min(measured.rate, 1 - min(failed, measured.widest) / measured.widest),
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
    total = measured.passed + measured.failed
    score = measured.rate
    said = f"{measured.passed} of {total} tests pass"
    if total < measured.widest:
        said += f", out of {measured.widest} seen before"
    if measured.coverage >= 0:
        score = score * (1 - COVERAGE_SHARE) + measured.coverage * COVERAGE_SHARE
        said += f", {measured.coverage:.0%} covered"
    return Progress(score, "tests", f"{said} ({measured.source or 'counts'})")


def _by_artifacts(measured: Measured) -> Progress:
    score = FIRST_FILE + CODE_FILE * measured.code + OTHER_FILE * (measured.others + measured.manifests)
    counts = (
        (measured.code, "code file"),
        (measured.manifests, "dependency manifest"),
        (measured.others, "other file"),
    )
    said = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count)
    return Progress(min(ARTIFACTS_AT_MOST, score), "artifacts", f"{said} changed")


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TESTS


def _share(value: Json, present: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return present
