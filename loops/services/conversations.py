"""Conversations for whoever reads them, on pages and by the API: what was said, and each request in its provider's form
(SPEC R4, U1)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from loops.engine.context_window.messages import Turn
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain
from loops.engine.values import ModelRequest, ToolSpec
from loops.llm import providers
from loops.models import ModelCall, Run
from loops.services.models import model_configs
from loops.storage.conversations import ReplayedRequest


def said(told: ReplayedRequest, *, whole: bool) -> list[dict[str, Any]]:
    """System prompt (number 0) and messages; without ``whole`` only what the latest request sent. {"number", "role",
    "content": blocks}, clean for display."""
    turns = told.transcript.turns
    if not turns:
        return []
    system = {"number": 0, "role": "system", "content": [{"type": "text", "text": told.transcript.system}]}
    shown = turns if whole else turns[: told.sent]
    return [canonical.clean_json(system), *(_message(number, turn) for number, turn in enumerate(shown, 1))]


def counted(run: Run, seq: int) -> ModelCall | None:
    """What the provider counted of the request ``seq``."""
    found: ModelCall | None = ModelCall.objects.filter(run=run, seq__gt=seq, role="actor").order_by("seq").first()
    return found


def as_sent(told: ReplayedRequest) -> dict[str, Any]:
    """The latest request as its provider takes it, by today's configuration of the model; a script, and a model that is
    gone, have no form of their own."""
    asked = told.asked
    assert asked is not None
    specs = tuple(from_plain(ToolSpec, tool) for tool in told.tools)
    sent = told.transcript.messages[: told.sent]
    config = model_configs().get(asked.model)
    made = ModelRequest(
        role=asked.role,
        model=asked.model,
        system=told.transcript.system,
        messages=sent,
        tools=specs,
        max_tokens=asked.max_tokens or 8192,
        thinking=config.thinking if config else "off",
    )
    body = {"system": made.system, "tools": list(told.tools), "messages": list(sent), "max_tokens": made.max_tokens}
    provider = providers.OURS.get(config.provider) if config else None
    if provider and provider.request:
        body = import_module(provider.request).request_body(made, config, xml=config.xml_tools)
    clean: dict[str, Any] = canonical.clean_json(body, levels=10**6)
    return clean


def _message(number: int, turn: Turn) -> dict[str, Any]:
    blocks = list(turn.blocks)
    if turn.summary_at >= 0:
        blocks[turn.summary_at] = {**blocks[turn.summary_at], "type": "summary"}
    found: dict[str, Any] = canonical.clean_json({"role": turn.message["role"], "content": blocks})
    return {"number": number, **found}
