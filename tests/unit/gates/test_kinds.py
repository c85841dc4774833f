"""One table of kinds of gates, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gates.policy.kinds import GATE_KINDS, Kind, of
from gates.policy.verdicts import allowed
from loops.engine import apply
from loops.engine.reducers import CALL, CHECK, DECISIONS, OTHER
from loops.engine.values import Verdict

PARTS = Path(__file__).parents[3] / "templates" / "gates" / "kinds"


@pytest.mark.spec("Q1", "Q4")
def test_every_kind_has_a_row_and_every_row_a_kind() -> None:
    assert list(GATE_KINDS) == list(Kind)
    assert {path.stem for path in PARTS.glob("*.html")} <= set(Kind)


@pytest.mark.spec("Q3", "Q4")
@pytest.mark.parametrize("kind", Kind)
def test_every_row_is_complete(kind: Kind) -> None:
    row = GATE_KINDS[kind]
    assert row.label
    assert row.awaits.startswith(("a ", "an ", "guidance", "help")), "completes: waits for"
    assert row.awaits == row.awaits.strip(" .")
    assert row.icon
    assert Verdict.EXPIRE not in row.verdicts, "time's own verdict"
    assert len(set(row.verdicts)) == len(row.verdicts) > 1
    assert row.extends in {None, *row.verdicts}


@pytest.mark.spec("Q4")
def test_nobody_may_say_anything_to_an_unknown_kind() -> None:
    assert of("made_up") is None
    assert allowed("made_up") == ()


def test_an_ability_says_what_a_decision_on_each_kind_means() -> None:
    """Those that no ability says are about what the gate names: a call, or the command of a criterion."""
    assert apply.HANDLERS, "which brings all abilities in"
    assert {*Kind} - DECISIONS.keys() == {Kind.TOOL_APPROVAL, Kind.IRREVERSIBLE_ACTION}
    assert DECISIONS.keys() - {*Kind} == {CALL, CHECK, OTHER}
