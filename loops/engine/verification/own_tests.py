"""What results of a command say of the tests that a run wrote itself (SPEC L2, X4). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from loops.engine.state.check import Check
from loops.engine.state.evidence import Evidence
from loops.engine.state.own_tests import NAMED, UNNOTICED, OwnTests
from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.engine.verification.proof import listed
from loops.engine.verification.report import NEW, outcomes

LONGEST_NAME = 200
PASSED, FAILED = "passed", "failed"


def written(left: Mapping[str, Json], sealed: Mapping[str, Json], *, seen_at_start: bool) -> list[str]:
    """Tests that the folder of the run alone has, by the data of a result there and in the clean checkout; none where
    no report tells those of the start."""
    new, of_start = left.get(NEW) if seen_at_start else None, outcomes(sealed)
    if not of_start and not isinstance(new, list):
        return []
    found = map(str, new) if isinstance(new, list) else outcomes(left)
    return sorted(set(found) - of_start.keys())


def begun(names: Sequence[str]) -> OwnTests:
    return OwnTests(count=len(names), names=_first(names))


def without_work(own: OwnTests, names: Sequence[str], data: Mapping[str, Json]) -> OwnTests:
    """``data`` are of a result where the work is as it was when the run began."""
    hold = of_outcome(PASSED, names, data)
    return replace(own, ran_without=True, hold_without_count=len(hold), hold_without=_first(hold))


def mutated(own: OwnTests, what: str, *, noticed: bool) -> OwnTests:
    """With one mutant more."""
    more = () if noticed else (what,)
    return replace(own, mutants=own.mutants + 1, unnoticed=(*own.unnoticed, *more)[:UNNOTICED])


def of_outcome(outcome: str, names: Collection[str], data: Mapping[str, Json]) -> list[str]:
    found = outcomes(data)
    return [name for name in names if found.get(name) == outcome]


def judged(check: Check, own: OwnTests) -> Check:
    """With what they are worth, also in the words that keep it from being proved."""
    why = check.why
    if own.hold_without_count and check.evidence is not Evidence.PROVED:
        some = f"{own.hold_without_count:,} of {own.count:,}" if own.count > 1 else "The only"
        tests, hold = ("tests", "hold") if own.count > 1 else ("test", "holds")
        first = listed(own.hold_without, own.hold_without_count)
        why = f"{why} {some} {tests} that the run wrote {hold} without its work as well: {first}."
    return replace(check, own_tests=own, why=why.strip())


def _first(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(shortened(name, LONGEST_NAME) for name in names[:NAMED])
