"""Why a run could not go on without a person, in D83's own column, from the facts (SPEC W1)."""

from __future__ import annotations

import pytest

from loops.engine import facts as f
from loops.engine.state.lifecycle import Event, Phase
from loops.ids import new_id
from loops.models import Run
from loops.storage.rebuild import rebuild
from loops.storage.rows import ESCALATIONS, SHOWN_CHARS
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("W1", "E1")]
WHY = "Low confidence: 0.42, below 0.50"


class Asked:
    """A run that waits at a gate."""

    def __init__(self, kind: str, title: str = WHY) -> None:
        self.mine, self.gate, self.kind = owned.begun(), str(new_id()), kind
        self.mine.append(f.GateOpened(gate=self.gate, kind=kind, title=title))

    def decided(self, verdict: str) -> Asked:
        self.mine.append(f.GateDecided(gate=self.gate, kind=self.kind, verdict=verdict, by="ana"))
        return self

    def append(self, *facts: f.Fact) -> Asked:
        self.mine.append(*facts)
        return self

    @property
    def reason(self) -> str:
        """As stored, and as made again from the facts."""
        assert rebuild(self.mine.run.pk).differences == []
        return Run.objects.get(pk=self.mine.run.pk).escalation_reason


@pytest.mark.parametrize("kind", sorted(ESCALATIONS - {"permission_blocked"}))
def test_it_is_said_while_a_person_is_asked_and_no_more_when_the_run_goes_on(kind: str) -> None:
    run = Asked(kind)
    assert run.reason == WHY
    assert Run.objects.escalated().get() == run.mine.run
    assert run.decided("respond").reason == ""
    assert not Run.objects.escalated().exists()


@pytest.mark.parametrize("verdict", ["reject", "expire"])
@pytest.mark.parametrize("kind", sorted(ESCALATIONS - {"permission_blocked"}))
def test_it_stays_when_nobody_lets_the_run_go_on(kind: str, verdict: str) -> None:
    assert Asked(kind).decided(verdict).reason == WHY


@pytest.mark.parametrize("kind", ["final_review", "limit_reached", "long_task"])
def test_what_people_wished_to_be_asked_is_no_escalation(kind: str) -> None:
    assert Asked(kind).reason == ""


def test_it_is_over_when_a_stopped_run_goes_on() -> None:
    run = Asked("loop_detected", "Going in circles").append(
        f.StopRequested(by="ana"),
        f.PhaseEntered(phase=Phase.HALT, event=Event.HALTED, came_from=Phase.PLAN),
        f.RunEnded(phase=Phase.HALT, reason="operator_stop", report={}, report_kind="HaltRecord"),
    )
    assert run.reason == "Going in circles", "that is how it was left"
    assert run.append(f.RunResumed(by="ana")).reason == ""


def test_a_pause_changes_nothing_about_it() -> None:
    run = Asked("low_confidence").append(f.RunPaused(by="ana"), f.RunResumed(by="ana"))
    assert run.reason == WHY


def test_a_title_from_outside_is_cleaned_and_bounded() -> None:
    assert Asked("escalation", "NUL \0 and \ud800" + "x" * 10_000).reason.startswith("NUL ␀ and \ufffd")
    assert len(Asked("escalation", "x" * 10_000).reason) == SHOWN_CHARS
