"""A denied call: the model is told what else there is, then a specialist is looked for, then a person decides (I4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.permissions import denials as permissions_denials
from loops.engine.state.lifecycle import Phase
from loops.engine.state.measures import NOTHING_DENIED
from loops.engine.state.thresholds import OFF
from loops.engine.values import Access
from tests.fakes import Tools, World, done, says

pytestmark = pytest.mark.spec("I4")
WIPE = ("wipe", {"path": "a"})
LIMITS = {"max_failures": 9, "circles": OFF}


class Somebody:
    """The orchestrator of a project in which one other agent may do anything, or nobody may."""

    def __init__(self, found: p.Specialist) -> None:
        self.found, self.asked = found, 0

    def find_specialist(self, call: Any, context: Any) -> p.Specialist:
        self.asked += 1
        return self.found

    def confidence_request(self, evidence: Any, *, goal: str, model: str) -> Any:
        raise AssertionError("nobody judges here")

    async def evaluate_confidence(self, request: Any) -> p.Opinion:
        raise AssertionError("nobody judges here")


class Denied(World):
    def __init__(self, answers: Any, specialist: p.Specialist | None = None, **changes: Any) -> None:
        tools = Tools({"look": lambda arguments: "seen", "wipe": lambda arguments: "gone"}, {"wipe": Access.DENY})
        limits = LIMITS | changes.pop("limits", {})
        super().__init__(answers, changes.pop("tools", tools), limits=limits, **changes)
        self.somebody = Somebody(specialist or p.Specialist(looked_at=2))

    def ports(self) -> Any:
        return replace(super().ports(), orchestrator=self.somebody)

    @property
    def rungs(self) -> list[str]:
        return [fact.rung for fact in self.journal.of(f.PermissionDenied)]

    @property
    def refusals(self) -> list[str]:
        return [fact.message for fact in self.journal.of(f.ToolRefused)]


def wipes(times: int) -> list[Any]:
    return [says("", ("wipe", {"path": str(number)})) for number in range(times)]


def blocked(**more: Any) -> Denied:
    world = Denied([*wipes(2), says("", ("look", {})), done()], **more)
    assert world.drive() == "gate:permission_blocked"
    return world


def test_the_first_denial_tells_the_model_what_it_may_use() -> None:
    world = Denied([*wipes(1), done()])
    assert world.drive() == "ended"
    assert world.rungs == ["alternatives"]
    assert world.refusals == [
        "Not allowed: rule. What you may use instead: look (allowed). If none of this helps, ask with ask_question."
    ]
    assert not world.gatekeeper.opened


def test_the_second_denial_looks_for_a_specialist_and_asks_a_person() -> None:
    world = blocked(specialist=p.Specialist("Cleaner", "janitor", 3))
    assert world.rungs == ["alternatives", "specialist"]
    assert world.journal.of(f.PermissionDenied)[1].specialist == "Cleaner (janitor)"
    gate = world.gatekeeper.opened[0]
    assert (gate.kind, gate.tool, gate.call_id) == ("permission_blocked", "wipe", "c2.0")
    assert gate.view["specialist"] == "Cleaner (janitor)"
    assert gate.view["alternatives"] == ["look (allowed)"]
    assert gate.subject == {"tool": "wipe", "arguments": {"path": "1"}}, "an approval binds to the very call"
    assert not world.tools.ran


def test_nobody_who_may_is_said_as_well() -> None:
    assert "no other agent" in str(blocked().gatekeeper.opened[0].view["specialist"])


def test_without_an_orchestrator_a_person_is_asked_all_the_same() -> None:
    world = Denied([*wipes(2), done()])
    world.ports = lambda: World.ports(world)  # type: ignore[method-assign]
    assert world.drive() == "gate:permission_blocked"


def test_a_grant_runs_exactly_this_call_once() -> None:
    world = blocked()
    world.decide("approve")
    assert world.drive() == "ended"
    assert [call.arguments for call in world.tools.ran if call.name == "wipe"] == [{"path": "1"}]
    intended = [fact for fact in world.journal.of(f.ToolIntended) if fact.tool == "wipe"]
    assert [fact.gate for fact in intended] == [world.gatekeeper.opened[0].id]
    assert world.gatekeeper.consumed == [world.gatekeeper.opened[0].id]


def test_a_grant_that_does_not_hold_any_more_runs_nothing() -> None:
    world = blocked()
    world.gatekeeper.void = "something changed"
    world.decide("approve")
    assert world.drive() != "lost"
    assert not any(call.name == "wipe" for call in world.tools.ran)
    assert world.journal.of(f.ApprovalVoided)


def test_after_a_grant_the_ladder_begins_anew() -> None:
    world = Denied([*wipes(4), done()])
    assert world.drive() == "gate:permission_blocked"
    world.decide("approve")
    assert world.drive() == "gate:permission_blocked"
    assert world.rungs == ["alternatives", "specialist", "alternatives", "specialist"]
    assert len([call for call in world.tools.ran if call.name == "wipe"]) == 1


@pytest.mark.parametrize(
    ("verdict", "payload", "told"),
    [
        ("reject", {"reason": "never"}, "never"),
        ("respond", {"answer": "Move it to the attic."}, "Move it to the attic."),
        ("expire", {}, "nobody decided in time"),
    ],
)
def test_without_a_grant_the_call_stays_refused_and_the_agent_goes_on(
    verdict: str, payload: dict[str, Any], told: str
) -> None:
    world = blocked()
    world.decide(verdict, **payload)
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert told in world.refusals[-1]
    assert not any(call.name == "wipe" for call in world.tools.ran)


def test_a_person_is_asked_once_for_one_kind_of_operation() -> None:
    world = Denied([*wipes(3), done()])
    world.drive()
    world.decide("reject", reason="never")
    assert world.drive() == "ended"
    assert world.rungs == ["alternatives", "specialist", "settled"]
    assert len(world.gatekeeper.opened) == 1
    assert world.somebody.asked == 1
    assert "do not propose it again" in world.refusals[-1]


def test_a_model_that_never_learns_gets_nothing_through_and_ends_within_its_bounds() -> None:
    world = Denied(lambda request: says("", WIPE), limits={"max_steps": 30, "max_failures": 5})
    for _ in range(10):
        why = world.drive()
        if why == "ended":
            break
        world.decide("reject", reason="no")
    assert why == "ended"
    assert world.state.end_reason == "max_failures"
    assert not world.tools.ran


def test_the_negative_control_a_tool_service_that_forgets_the_grant_would_be_noticed() -> None:
    """The service itself refuses a denied call that comes without a grant: whatever the loop believes."""
    world = blocked()
    execute = world.tools.execute

    async def forgetful(call: Any, context: p.CallContext, on_output: Any) -> Any:
        return await execute(call, replace(context, grant=""), on_output)

    world.tools.execute = forgetful  # type: ignore[method-assign]
    world.decide("approve")
    world.drive()
    assert not any(call.name == "wipe" for call in world.tools.ran)


class Escaping(Tools):
    """What the sandbox refuses, no person can grant."""

    async def judge(self, call: Any, context: p.CallContext) -> p.Judgement:
        judged = await super().judge(call, context)
        return replace(judged, grantable=False, subject={}, alternatives=())


def test_what_nobody_can_grant_opens_no_gate() -> None:
    tools = Escaping({"look": lambda arguments: "seen", "wipe": lambda arguments: "gone"}, {"wipe": Access.DENY})
    world = Denied([*wipes(3), done()], tools=tools)
    assert world.drive() == "ended"
    assert world.rungs == ["alternatives", "settled", "settled"]
    assert "None of your tools" not in world.refusals[0]
    assert not world.gatekeeper.opened


def test_what_is_remembered_of_denials_is_bounded() -> None:
    denials = NOTHING_DENIED
    for number in range(100):
        denials = permissions_denials.counted(denials, f"kind{number}", asked=True)
    assert len(denials.times) == len(denials.asked) == permissions_denials.KINDS_KEPT


@pytest.mark.spec("J4")
def test_a_worker_lost_on_the_ladder_changes_nothing() -> None:
    whole = Denied([*wipes(2), done()])
    whole.drive()
    at = [number for number, fact in enumerate(whole.journal.facts) if isinstance(fact, f.PermissionDenied)][-1] + 1
    again = Denied([done()])
    again.journal.facts = whole.journal.facts[:at]
    assert again.drive() == "gate:permission_blocked"
    assert again.somebody.asked == 0
