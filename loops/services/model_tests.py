"""Try a model with one call that needs a tool, and say in plain words what it can do (SPEC S3).

In a worker or on the command line, never in a request: a small machine may take minutes for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.utils import timezone

from loops.engine.measures.context_budget import is_small
from loops.engine.ports import ModelError
from loops.engine.values import ModelEvent, ModelReply, ModelRequest, ModelRole, ToolSpec
from loops.llm import prompts
from loops.llm.config import ModelConfig as Config
from loops.llm.endpoints.context_window_discovery import ask_window
from loops.llm.registry import ModelService
from loops.models import ModelConfig
from loops.services import access
from loops.services.models import config_of, keep_window, key_is_present, window_in_words, window_of
from loops.services.people import NotPossible
from loops.storage import dispatch
from loops.storage.journal import raw_connection
from loops.storage.turns import busy

LONGEST_S = 1200.0
ANSWER_TOKENS = 1024
WORKS = "Tool use: yes"
IN_ONE_PIECE_S = 0.0005
"""What is taken apart here, without waiting for the network, takes a tenth of it."""
REPORT = ToolSpec(
    name="report",
    description="Report a word.",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The word."}},
        "required": ["text"],
    },
)


@dataclass(frozen=True, slots=True)
class Tried:
    """``lines`` say it to people; ``works`` is whether an agent could work with the model."""

    works: bool
    lines: tuple[str, ...]


def try_model(row: ModelConfig, environ: Mapping[str, str] = os.environ) -> Tried:
    """Make one call, keep what was found with the model, and return it. Raises nothing that a provider may cause."""
    config = config_of(row, environ)
    crowd = _crowd(config)
    keep_window(row, ask_window(config))
    row.refresh_from_db()
    try:
        tried = _spoken(row, crowd, *asyncio.run(_ask(row.name, ModelService({row.name: config}))))
    except (ModelError, TimeoutError) as error:
        said = str(error) or f"no whole answer within {LONGEST_S:.0f} seconds"
        tried = Tried(False, (f"It did not answer: {said}", *crowd, *_key(row, environ), *_window(row)))
    ModelConfig.objects.filter(pk=row.pk).update(tested_at=timezone.now(), test_result="\n".join(tried.lines))
    return tried


def order_test(*, actor: Any, row: ModelConfig) -> None:
    """Have a worker test it. Raises NotAllowed or NotPossible."""
    access.require_superuser(actor, None, what="test models")
    begin_test(row)
    try:
        dispatch.dispatch("loops.test_model", model=str(row.pk))
    except Exception as error:  # any transport's error
        raise NotPossible(f"{error}. The test was not started: see System for the broker and the workers.") from error


def begin_test(row: ModelConfig) -> None:
    """Say that one is under way; a worker does it."""
    lines = ("Under way: reload this page in a moment.", *_crowd(config_of(row)))
    ModelConfig.objects.filter(pk=row.pk).update(tested_at=None, test_result="\n".join(lines))


def outcome(row: ModelConfig) -> Tried | None:
    """What its latest test found; None while one is under way."""
    lines = tuple(row.test_result.split("\n"))
    return Tried(any(line.startswith(WORKS) for line in lines), lines) if row.tested_at else None


def _crowd(config: Config) -> tuple[str, ...]:
    """Whom the test meets at its server. A person waits for it, so it waits for no turn, and says what that means."""
    answered, waiting = busy(raw_connection(), config.seat) if config.at_once else (0, 0)
    if answered < config.at_once or not answered:
        return ()
    others = f"{answered} call{'' if answered == 1 else 's'} of runs"
    line = f", and {waiting} more wait{'s' if waiting == 1 else ''} for a turn" if waiting else ""
    return (
        f"Its server is busy: it takes {config.at_once} at a time and is answering {others}{line}. "
        "The test goes beside them, so both take longer than usual.",
    )


async def _ask(name: str, models: ModelService) -> tuple[ModelReply, bool]:
    """The answer, and whether it came piece by piece."""
    heard_at: list[float] = []

    def hear(event: ModelEvent) -> None:
        heard_at.append(time.monotonic())

    request = ModelRequest(
        role=ModelRole.ACTOR,
        model=name,
        system="",
        messages=({"role": "user", "content": [{"type": "text", "text": prompts.load("test_model").text}]},),
        tools=(REPORT,),
        max_tokens=ANSWER_TOKENS,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            reply = await models.call(request, hear)
            return reply, any(after - before > IN_ONE_PIECE_S for before, after in pairwise(heard_at))
    finally:
        await models.close()


def _spoken(row: ModelConfig, crowd: tuple[str, ...], reply: ModelReply, streams: bool) -> Tried:
    called = any(call.name == REPORT.name and not call.error for call in reply.calls)
    tools = f"{WORKS}, it called the tool it was asked to call."
    if not called:
        broken = next((call.error for call in reply.calls if call.error), "")
        tools = f"Tool use: no, {broken or 'it answered in words'}. An agent cannot work with it like this"
        tools += "." if row.xml_tools else '; try "Tools as XML", or another model or template on its server.'
    lines = (
        f"It answered in {reply.duration_ms / 1000:,.1f} seconds as {reply.model_id or row.model_id}.",
        *crowd,
        tools,
        f"Streaming: {'yes' if streams else 'not seen, its answer came in one piece'}.",
        _speed(reply),
        *_window(row),
    )
    return Tried(called, lines)


def _speed(reply: ModelReply) -> str:
    seconds, tokens = (reply.duration_ms - reply.first_token_ms) / 1000, reply.usage.output_tokens
    first = f"{reply.first_token_ms / 1000:,.1f} seconds to the first word"
    if tokens < 2 or seconds <= 0:
        return f"Speed: {first}; too little was said to count tokens a second."
    return f"Speed: {first}, then about {tokens / seconds:,.0f} tokens a second."


def _window(row: ModelConfig) -> tuple[str, ...]:
    small = " It is small, so prompt and tools are sent in a short form." if is_small(window_of(row)) else ""
    return (f"Window: {window_in_words(row)}.{small}",)


def _key(row: ModelConfig, environ: Mapping[str, str]) -> tuple[str, ...]:
    return () if key_is_present(row, environ) else (f"The variable {row.api_key_env} holds no key.",)
