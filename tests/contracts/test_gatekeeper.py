"""What every gatekeeper promises the driver."""

from __future__ import annotations

import pytest

from loops.engine import ports as p
from tests.contracts.conftest import SUBJECT, GateRig

pytestmark = pytest.mark.spec("Q5")


def test_a_gate_is_opened_once_however_often_it_is_asked_for(gates: GateRig) -> None:
    first, second = gates.request(), gates.request()
    for request in (first, second, first):
        gates.do(gates.keeper.open(request))
    assert gates.opened() == [first.id, second.id]


def test_nothing_happens_before_the_transaction(gates: GateRig) -> None:
    gates.keeper.open(gates.request())
    gates.keeper.consume("nothing", SUBJECT)
    assert gates.opened() == []


def approved(gates: GateRig) -> str:
    request = gates.request()
    gates.do(gates.keeper.open(request))
    gates.approve(request.id)
    return request.id


def test_an_approval_is_used_up_once(gates: GateRig) -> None:
    gate = approved(gates)
    gates.do(gates.keeper.consume(gate, SUBJECT))
    with pytest.raises(p.ApprovalVoid, match="already used"):
        gates.do(gates.keeper.consume(gate, SUBJECT))


def test_an_approval_of_something_else_is_void(gates: GateRig) -> None:
    gate = approved(gates)
    gates.change(gate)
    with pytest.raises(p.ApprovalVoid):
        gates.do(gates.keeper.consume(gate, SUBJECT))


def test_a_gate_nobody_opened_is_void(gates: GateRig) -> None:
    unknown = gates.request().id
    with pytest.raises(p.ApprovalVoid, match="no such"):
        gates.do(gates.keeper.consume(unknown, SUBJECT))


def test_a_gate_that_was_withdrawn_is_void(gates: GateRig) -> None:
    request = gates.request()
    gates.do(gates.keeper.open(request))
    gates.do(gates.keeper.withdraw(request.run_id, "stopped"))
    with pytest.raises(p.ApprovalVoid):
        gates.do(gates.keeper.consume(request.id, SUBJECT))


def test_withdrawing_with_nothing_open_is_no_error(gates: GateRig) -> None:
    gates.do(gates.keeper.withdraw(gates.request().run_id, "NUL \0 and half a pair \ud800"))
