"""Each rule of a decision at each door: one that a door forgot lets a decision through (SPEC Q5, Q6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from gates.models import Decision, Gate
from gates.services.decisions import LONGEST_REASON
from gates.services.disclosure import whole_proof
from loops.models import AuditEvent, MailboxItem, Policy
from loops.services.steering import send_message
from tests import decisions
from tests.integration.gates.builders import World, make_world, open_gate, tool_view
from tests.integration.gates.test_decisions import expire_now
from tests.web.decision_doors import EACH_WAY, WAYS, by_api

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q4", "Q5", "Q6", "X5")]
IRREVERSIBLE = {"kind": "irreversible_action", "view": tool_view(reversibility="IRREVERSIBLE")}


@dataclass
class Attempt:
    """Who decides which gate how. What is not said is as it has to be."""

    gate: Gate
    by: Any
    sent: dict[str, Any] = field(default_factory=dict)
    shown_to: Any = None
    client: Client = field(default_factory=Client)
    says: str = ""
    """The code in the audit log."""

    def at(self, way: Callable[..., Any]) -> Any:
        return way(self.client, self.gate, **{"shown": whole_proof(self.shown_to or self.by, self.gate), **self.sent})


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def lawful(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer)


def no_member(world: World) -> Attempt:
    return Attempt(open_gate(world), world.outsider, says="not_found")


def a_viewer(world: World) -> Attempt:
    return Attempt(open_gate(world), world.viewer, says="not_allowed")


def an_operator(world: World) -> Attempt:
    return Attempt(open_gate(world), world.author, says="not_allowed")


def no_member_any_more(world: World) -> Attempt:
    """They were when they logged in and when they looked."""
    world.second.memberships.all().delete()
    return Attempt(open_gate(world), world.second, says="not_found")


def not_active_any_more(world: World) -> Attempt:
    attempt = Attempt(open_gate(world), world.second)
    attempt.client.force_login(world.second)
    type(world.second).objects.filter(pk=world.second.pk).update(is_active=False)
    return attempt


def logged_out(world: World) -> Attempt:
    attempt = Attempt(open_gate(world), world.reviewer)
    attempt.client.force_login(world.reviewer)
    attempt.client.logout()
    return attempt


def from_another_site(world: World) -> Attempt:
    """Their browser, and no token of ours in the form."""
    return Attempt(open_gate(world), world.reviewer, client=Client(enforce_csrf_checks=True))


def who_asked(world: World) -> Attempt:
    Policy.objects.update(own_approval_allowed=False)
    world.author.memberships.get_or_create(project=world.project, role="reviewer")
    return Attempt(open_gate(world), world.author, says="not_allowed")


def who_shaped_it(world: World) -> Attempt:
    Policy.objects.update(own_approval_allowed=False)
    world.second.memberships.get_or_create(project=world.project, role="operator")
    send_message(actor=world.second, run=world.run, text="Take the other folder")
    return Attempt(open_gate(world), world.second, says="not_allowed")


def too_late(world: World) -> Attempt:
    gate = open_gate(world)
    expire_now(gate)
    gate.refresh_from_db()
    return Attempt(gate, world.reviewer, says="expired")


def not_needed(world: World) -> Attempt:
    gate = open_gate(world)
    Gate.objects.filter(pk=gate.pk).update(status=Gate.Status.VOID, decided_at=timezone.now())
    return Attempt(gate, world.reviewer, says="already_decided")


def another_state(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"digest": "0" * 64}, says="changed")


def no_state(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"digest": ""}, says="changed")


def rewritten(world: World) -> Attempt:
    """By somebody with the database in their hands: the digest of before stands beside a view of now."""
    gate = open_gate(world)
    Gate.objects.filter(pk=gate.pk).update(view=tool_view(arguments={"path": "elsewhere"}))
    return Attempt(gate, world.reviewer, says="changed")


def never_shown(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"shown": ""}, says="not_shown")


def shown_to_somebody_else(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, shown_to=world.second, says="not_shown")


def verdict_of_another_kind(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"verdict": "keep"}, says="invalid")


def a_verdict_of_time(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"verdict": "expire"}, says="invalid")


def no_verdict(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"verdict": ""}, says="invalid")


def an_unknown_verdict(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"verdict": "approve\x00"}, says="invalid")


def a_rejection_without_reason(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"verdict": "reject", "reason": " \u200b\n"}, says="invalid")


def too_many_words(world: World) -> Attempt:
    return Attempt(open_gate(world), world.reviewer, {"reason": "x" * (LONGEST_REASON + 1)}, says="invalid")


def without_the_word(world: World) -> Attempt:
    """What cannot be undone is approved by typing its name."""
    return Attempt(open_gate(world, **IRREVERSIBLE), world.reviewer, says="invalid")


def begun_again_too_soon(world: World) -> Attempt:
    gate = open_gate(world, "in_doubt", view=tool_view(attempt=1, again_after_s=600))
    return Attempt(gate, world.reviewer, says="invalid")


RULES = [
    no_member, a_viewer, an_operator, no_member_any_more, not_active_any_more, logged_out, from_another_site, who_asked,
    who_shaped_it, too_late, not_needed, another_state, no_state, rewritten, never_shown, shown_to_somebody_else,
    verdict_of_another_kind, a_verdict_of_time, no_verdict, an_unknown_verdict, a_rejection_without_reason,
    too_many_words, without_the_word, begun_again_too_soon,
]  # fmt: skip
NOBODY = {logged_out, not_active_any_more, from_another_site}
"""Refused before anybody is known to have decided."""


@pytest.mark.parametrize("rule", RULES)
def test_no_door_forgets_a_rule(world: World, rule: Callable[[World], Attempt]) -> None:
    for way in WAYS:
        attempt = rule(world)
        if rule not in NOBODY - {from_another_site}:
            attempt.client.force_login(attempt.by)
        before = _state(attempt.gate)
        refusals = AuditEvent.objects.filter(kind="gate.refused").count()
        response = attempt.at(way)
        assert not Decision.objects.exists(), way.__name__
        assert _state(attempt.gate) == before, way.__name__
        assert not MailboxItem.objects.filter(kind="decision").exists()
        assert response.status_code < 500, way.__name__
        told = list(
            AuditEvent.objects.filter(kind="gate.refused").order_by("pk").values_list("detail__code", flat=True)
        )
        by_form = way is by_api and response.status_code == 400  # no such word in its description
        assert told[refusals:] == ([] if rule in NOBODY or by_form else [attempt.says]), way.__name__


@EACH_WAY
def test_and_each_lets_the_lawful_one_through(world: World, way: Callable[..., Any]) -> None:
    """Else the walk above proves nothing."""
    attempt = lawful(world)
    attempt.client.force_login(attempt.by)
    attempt.at(way)
    assert Decision.objects.get().decided_by == world.reviewer


@EACH_WAY
def test_the_first_decision_holds_at_every_door(world: World, way: Callable[..., Any]) -> None:
    attempt = lawful(world)
    decisions.decide(
        actor=world.second, gate_id=attempt.gate.pk, verdict="reject", digest=attempt.gate.digest, reason="no"
    )
    attempt.client.force_login(attempt.by)
    attempt.at(way)
    assert Decision.objects.get().decided_by == world.second
    assert MailboxItem.objects.filter(kind="decision").count() == 1


def _state(gate: Gate) -> tuple[Any, ...]:
    row: tuple[Any, ...] = Gate.objects.values_list("status", "digest", "decided_at").get(pk=gate.pk)
    return row
