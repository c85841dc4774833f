"""What a review and the end of a run say of how well each criterion is proved (SPEC L2, X4, C6, Q3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine.decide import decide
from loops.engine.effects import Effect, OpenGate
from loops.engine.ends.reasons import EXPLANATIONS, UNPROVEN
from loops.engine.ends.reports import report
from loops.engine.state.check import Check, CheckStatus
from loops.engine.state.evidence import Evidence, counted, how_many, weakest
from loops.engine.state.lifecycle import Phase
from loops.engine.state.own_tests import OwnTests
from loops.engine.state.remark import Remark
from loops.engine.state.run import RunState
from loops.engine.verification.checks import levels, outcome, weakest_evidence
from loops.storage.status import final_status
from tests.unit.engine.test_ends_well import OPEN, PROVEN, play

pytestmark = pytest.mark.spec("L2", "X4")
CHEATS = Remark("process_end", "lib.py", "os._exit ends the process.")
SCHEMA = Check("The result satisfies the output schema", CheckStatus.PASSED, method="schema")


def check(level: str) -> Check:
    """That holds as well as this; "" as an earlier version measured it."""
    return Check(f"It is {level}", CheckStatus.PASSED, "pytest", evidence=Evidence(level))


def state(*checks: Check, review: str = "unless_verified", **more: Any) -> RunState:
    """Of a run whose checks are these, about to end."""
    world = play([PROVEN] * len(checks), "always", {})
    assert world.drive() == "gate:final_review"
    spec = replace(world.state.spec, final_review=review)
    return replace(world.state, spec=spec, gate=None, checks=checks, **more)


def asked(*given: str, **more: Any) -> OpenGate:
    effect: Effect = decide(state(*map(check, given), **more))
    assert isinstance(effect, OpenGate)
    return effect


def ended(*given: str, **more: Any) -> dict[str, Any]:
    found = state(*map(check, given), **more)
    return report(Phase.COMMIT, found, outcome(found))


# --- the review -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q3", "C6")
@pytest.mark.parametrize(
    ("given", "lacking", "risk", "recommended"),
    [
        (("proved", "supported"), "1 supported", "medium", "approve"),
        (("supported", "claimed", "supported"), "2 supported, 1 claimed", "medium", ""),
        (("proved", "claimed"), "1 claimed", "medium", ""),
        (("proved", "contradicted"), "1 contradicted", "high", ""),
    ],
)
def test_a_review_says_what_is_lacking(given: tuple[str, ...], lacking: str, risk: str, recommended: str) -> None:
    gate = asked(*given)
    assert gate.reasons == (f"not every criterion is proved: {lacking}",)
    assert (gate.risk, gate.recommended) == (risk, recommended)


def test_who_wants_to_see_every_result_hears_what_is_lacking_too() -> None:
    always = "the policy asks for a review of every result"
    assert asked("proved", review="always").reasons == (always,)
    assert asked("proved", review="always").recommended == "approve"
    found = asked("contradicted", review="always")
    assert found.reasons == (always, "not every criterion is proved: 1 contradicted")
    assert (found.risk, found.recommended) == ("high", "")


def test_what_is_suspicious_is_a_reason_beside_what_is_lacking() -> None:
    doubted = asked("proved", remarks=(CHEATS,))
    assert doubted.reasons == ("a change could make a check pass without the work",)
    assert len(asked("supported", remarks=(CHEATS,)).reasons) == 2
    assert (doubted.risk, doubted.recommended) == ("high", "")


def test_a_criterion_without_a_command_is_claimed_and_says_so() -> None:
    world = play([OPEN], "unless_verified", {})
    assert world.drive() == "gate:final_review"
    (gate,) = world.gatekeeper.opened
    assert gate.reasons == ("not every criterion is proved: 1 claimed",)
    (shown,) = gate.view["criteria"]
    assert (shown["status"], shown["evidence"]) == ("unproven", "claimed")
    assert "names no command" in shown["why"]


@pytest.mark.parametrize("review", ["unless_verified", "never"])
def test_what_an_earlier_version_measured_counts_as_it_did(review: str) -> None:
    found = state(check(""), review=review)
    effect = decide(found)
    assert not isinstance(effect, OpenGate)
    assert ended("", review=review)["evidence"] == "proved"
    assert asked("", review="always").recommended == "approve"


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("C6", "N1")
@pytest.mark.parametrize(
    ("given", "more", "counts", "weak"),
    [
        (("proved", "proved"), {}, {"proved": 2}, "proved"),
        (("proved", "supported", "proved"), {"reviewed": True}, {"proved": 2, "accepted": 1}, "accepted"),
        (("contradicted",), {"reviewed": True}, {"accepted": 1}, "accepted"),
        (("proved",), {"reviewed": True, "remarks": (CHEATS,)}, {"accepted": 1}, "accepted"),
        (("proved", "supported"), {"review": "never"}, {"proved": 1, "supported": 1}, "supported"),
        (("proved", "claimed"), {"review": "never"}, {"proved": 1, "claimed": 1}, "claimed"),
        (("claimed", "contradicted"), {"review": "never"}, {"claimed": 1, "contradicted": 1}, "contradicted"),
        (("proved", "contradicted"), {"review": "never", "remarks": (CHEATS,)}, {"claimed": 1, "contradicted": 1},
         "contradicted"),
    ],
)  # fmt: skip
def test_an_end_counts_its_levels_and_names_the_weakest(
    given: tuple[str, ...], more: dict[str, Any], counts: dict[str, int], weak: str
) -> None:
    body = ended(*given, **more)
    assert (body["levels"], body["evidence"]) == (counts, weak)
    is_weak = weak in ("claimed", "contradicted")
    assert body["explanation"] == (UNPROVEN if is_weak else EXPLANATIONS[body["reason"]])
    over = replace(state(*map(check, given), **more), phase=Phase.COMMIT, end_reason=body["reason"])
    assert final_status(over) == ("finished" if is_weak else "success")


def test_what_a_result_looks_like_is_no_criterion() -> None:
    found = state(check("supported"), SCHEMA, review="never")
    assert levels(found) == {"supported": 1}
    assert weakest_evidence(found, "criteria_met") == "supported"


def test_an_end_of_an_earlier_version_keeps_its_name() -> None:
    """Before ends named their weakest evidence, every run that completed met its criteria."""
    of_old = Check("It reads well", CheckStatus.UNPROVEN, method="none")
    over = replace(state(of_old, review="never"), phase=Phase.COMMIT, end_reason="criteria_met")
    assert final_status(over) == "success"
    assert final_status(replace(over, end_reason="unproven")) == "finished"


def test_levels_are_told_from_the_strongest_to_the_weakest() -> None:
    found = [Evidence.CLAIMED, Evidence.ACCEPTED, Evidence.PROVED, Evidence.CONTRADICTED, Evidence.PROVED]
    told = "2 proved, 1 accepted by ada, 1 claimed, 1 contradicted"
    assert how_many(dict(sorted(counted(found).items())), "ada") == told
    assert how_many({}) == ""
    assert weakest(found) == "contradicted"


# --- tests of the run's own -------------------------------------------------------------------------------------------


def test_what_tests_of_the_run_s_own_are_worth_is_in_its_review_and_its_report() -> None:
    own = OwnTests(2, ("a", "b"), ran_without=True, hold_without_count=1, hold_without=("b",), mutants=3)
    told = {"count": 2, "names": ["a", "b"], "ran_without": True, "hold_without_count": 1, "hold_without": ["b"]}
    found = state(replace(check("supported"), own_tests=own), check("supported"))
    gate = decide(found)
    assert isinstance(gate, OpenGate)
    assert [one.get("own_tests") for one in gate.view["criteria"]] == [told | {"mutants": 3}, None]
    ended = report(Phase.COMMIT, replace(found, reviewed=True), "accepted")
    assert [one.get("own_tests") for one in ended["checks"]] == [told | {"mutants": 3}, None]
