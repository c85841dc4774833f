"""What an adapter without an SDK is made of: a guarded client, clean JSON, an answer that came in one piece (SPEC S3).

Apart from the table of providers, so that adapters of ours are made of it as well: the table names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loops.engine.values import Json, ModelEvent, ModelReply, ModelRequest
from loops.llm.config import ModelConfig
from loops.llm.reply_builder import Ending, ReplyBuilder, TextPart
from loops.llm.text import clean_json

if TYPE_CHECKING:
    import httpx2

OnEvent = Callable[[ModelEvent], None]


def client(config: ModelConfig) -> httpx2.AsyncClient:
    """A client for the model's own address, with its time-outs. It connects nowhere that nobody allowed, and follows no
    redirect to another server, since keys would go along. Close it with the adapter."""
    import httpx2

    from loops.llm.endpoints import timeouts
    from loops.llm.endpoints.connections import guard, stay, trusted

    timeout = httpx2.Timeout(max(config.silence_s), connect=config.connect_timeout)
    hooks = timeouts.hooks(*config.silence_s, first=stay)
    session = httpx2.AsyncClient(base_url=config.base_url, timeout=timeout, event_hooks=hooks, verify=trusted())
    guard(session, inward=config.inward)
    return session


def plain(value: Any) -> Any:
    """Messages or schemas of a request as ``json`` takes them, without text that no server could read."""
    return clean_json(list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value)


def answer(
    request: ModelRequest,
    on_event: OnEvent,
    end: Ending,
    *,
    text: str = "",
    calls: Sequence[tuple[str, Mapping[str, Json]]] = (),
) -> ModelReply:
    """An answer that came in one piece: cleaned text, and calls (tool, arguments) with ids of their own."""
    draft = ReplyBuilder(request, xml=request.xml_tools)
    if text:
        part = TextPart({"type": "text"})
        draft.add(part)
        draft.text(part, text)
    for number, (name, arguments) in enumerate(calls):
        part = draft.new_call(f"{end.provider}_{draft.turn}_{number}", name)
        draft.announce(part)
        draft.arguments(part, json.dumps(arguments))
        part.closed = True
    reply = draft.reply(request, end)
    for event in draft.events():
        on_event(event)
    return reply
