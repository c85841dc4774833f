"""Deciding in tests, as a person does who was shown the whole gate: by the one function of the product."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from gates import services
from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof


def decide(*, actor: Any, gate_id: uuid.UUID | str, **more: Any) -> Decision:
    """``more`` are the other arguments of ``gates.services.decide``. Whoever may not see the gate was not shown it."""
    gate = Gate.objects.visible_to(actor).filter(pk=gate_id).first()
    return services.decide(actor=actor, gate_id=gate_id, shown=whole_proof(actor, gate) if gate else "", **more)


def shown_in(whole: Mapping[str, Any]) -> str:
    """What a program sends back that was given a gate ``whole`` by the API."""
    return ".".join([whole["shown"], *(file["shown"] for file in whole["files"] if file["shown"])])
