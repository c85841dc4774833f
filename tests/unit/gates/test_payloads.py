"""What may come with a verdict."""

from typing import Any

import pytest

from gates.policy.kinds import Kind
from gates.policy.payloads import Invalid, cleaned, confirmation_word
from gates.policy.verdicts import ALLOWED
from loops.engine.measures import limits as guards

pytestmark = pytest.mark.spec("Q4")
GOOD: dict[str, dict[str, Any]] = {
    "approve": {},
    "approve_with_edits": {"arguments": {"path": "a"}},
    "reject": {},
    "extend": {"max_steps": 40},
    "roll_back": {},
    "keep": {},
    "continue": {},
}
CHOICES = ["roll_back", "keep", "continue"]


def clean(kind: str, verdict: str, payload: Any, *, reason: str = "because", **view: Any) -> dict[str, Any]:
    view = {"choices": CHOICES, **view}
    return cleaned(kind=kind, verdict=verdict, tool="pay", reason=reason, payload=payload, view=view)


@pytest.mark.spec("O3")
def test_a_run_that_cannot_go_on_is_not_continued() -> None:
    assert clean("rollback_choice", "keep", {}, choices=["roll_back", "keep"]) == {}
    with pytest.raises(Invalid):
        clean("rollback_choice", "continue", {}, choices=["roll_back", "keep"])


def good(kind: str, verdict: str) -> dict[str, Any]:
    if verdict == "respond":
        return {"outcome": "done"} if kind == "in_doubt" else {"answer": "The second one."}
    needs_word = kind == "irreversible_action" and verdict.startswith("approve")
    return GOOD[verdict] | ({"confirm": "pay"} if needs_word else {})


PAIRS = [(kind, verdict) for kind in Kind for verdict in ALLOWED[kind]]


@pytest.mark.parametrize(("kind", "verdict"), PAIRS)
def test_good_payload_passes_without_its_confirmation(kind: str, verdict: str) -> None:
    assert "confirm" not in clean(kind, verdict, good(kind, verdict))


@pytest.mark.parametrize(("kind", "verdict"), PAIRS)
@pytest.mark.parametrize("extra", ["approved", "status", "digest"])
def test_unknown_field_is_an_error(kind: str, verdict: str, extra: str) -> None:
    with pytest.raises(Invalid) as caught:
        clean(kind, verdict, {**good(kind, verdict), extra: True})
    assert caught.value.errors == {extra: ["Unknown field."]}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("reason", ["", "  \n"])
def test_rejecting_needs_a_reason(kind: str, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        clean(kind, "reject", {}, reason=reason)
    assert "reason" in caught.value.errors


@pytest.mark.spec("O1")
@pytest.mark.parametrize("typed", ["", "Pay", "pay x", "yes", True])
@pytest.mark.parametrize("verdict", ["approve", "approve_with_edits"])
def test_irreversible_action_needs_its_word(typed: Any, verdict: str) -> None:
    with pytest.raises(Invalid) as caught:
        clean("irreversible_action", verdict, {**GOOD[verdict], "confirm": typed})
    assert "confirm" in caught.value.errors


def test_only_irreversible_actions_ask_for_a_word() -> None:
    assert [kind for kind in Kind if confirmation_word(kind, "pay")] == ["irreversible_action"]
    assert confirmation_word("irreversible_action", "") != ""


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"max_steps": 20},
        {"max_steps": 10},
        {"max_steps": -1},
        {"max_steps": True},
        {"max_steps": "40"},
        {"max_steps": float("nan")},
        {"max_steps": 40.5},
        {"max_steps": 10**9},
        {"max_steps": 40, "max_tokens": 10},
        {"max_tokens": 10**6},
        {"max_depth": 3},
    ],
)
def test_bad_extension_is_refused(payload: Any) -> None:
    with pytest.raises(Invalid):
        clean("limit_reached", "extend", payload, limit="steps", bound=20)


def test_extension_is_kept() -> None:
    assert clean("limit_reached", "extend", {"max_steps": 30}, limit="max_steps", bound=20) == {"max_steps": 30}
    assert clean("limit_reached", "extend", {"max_cost_usd": 7.5}, limit="cost_usd", bound=5_000_000) == {
        "max_cost_usd": 7.5
    }


@pytest.mark.parametrize("payload", [{}, {"answer": " "}, {"answer": 3}, {"answer": "x" * 20_001}, {"outcome": "done"}])
def test_bad_answer_is_refused(payload: Any) -> None:
    with pytest.raises(Invalid):
        clean("question", "respond", payload)


@pytest.mark.parametrize("payload", [{}, {"outcome": "maybe"}, {"answer": "done"}, {"outcome": ["done"]}])
def test_bad_outcome_is_refused(payload: Any) -> None:
    with pytest.raises(Invalid):
        clean("in_doubt", "respond", payload)


@pytest.mark.parametrize("payload", [None, [], "approve", 1])
def test_payload_that_is_no_object_is_refused(payload: Any) -> None:
    with pytest.raises(Invalid):
        clean("tool_approval", "approve", payload)


def test_every_limit_that_stops_a_run_can_be_extended() -> None:
    for name in guards.LABELS:
        assert clean("limit_reached", "extend", {name: 9}, limit=name, bound=3) == {name: 9}
