"""Which changed files judge the work, and are not it: tests, settings of runners, what a criterion runs (SPEC L2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loops.engine.state.remark import Level
from loops.tools.suspicion import scripts, steering
from loops.tools.suspicion.changes import Change, is_in_tests


def judging(changes: Iterable[Change], commands: Sequence[str]) -> list[Change]:
    """Those that a check is to find as they were at the start: what was there, put back; what is new, taken away."""
    named = scripts.named(commands)
    return [one for one in changes if _judges(one, named)]


def _judges(one: Change, named: frozenset[str]) -> bool:
    if one.before is None and (one.is_test or one.is_recorded or one.ending == "pyc"):
        return True
    if one.before is not None and is_in_tests(one.path):
        return True
    return any(
        remark.code != "criterion_edited" or remark.level is Level.SUSPICIOUS for remark in steering.signs(one, named)
    )
