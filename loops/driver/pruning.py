"""Make the conversation shorter before the model is asked (SPEC U1)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from loops.driver.interrupts import Interrupts
from loops.driver.model_calls import ask_aside
from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.context_window.messages import Turn, message_of
from loops.engine.context_window.pruning import Plan, heading, plan, pruned, with_summary
from loops.engine.context_window.transcript import one_line, text_block
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.replace import evolve
from loops.engine.measures.context_budget import CAUTIOUS, estimate, rate, tokens
from loops.engine.measures.limits import tokens_left
from loops.engine.values import ModelReply, ModelRequest, ModelRole

SUMMARY_TOKENS = 1024
SUMMARY_SECONDS = 120.0
READ_AT_MOST = 60_000
"""Characters of what goes that a model is given to sum up, the latest of them."""
SHOWN_OF_EACH = 2000


async def prune(session: RunSession, interrupts: Interrupts, effect: e.PruneContext) -> None:
    """Leave out what has to go; where the project has a model for it, that one sums it up."""
    known, fixed = session.state.windowing, session.system_bytes + session.tools_bytes
    most, enough = (max(1, int(size * rate(known)) - fixed) for size in (effect.most, effect.enough or effect.most))
    made = plan(session.transcript, most, enough=enough, level=effect.level)
    fact = f.ContextPruned(
        before_tokens=estimate(session.state),
        after_tokens=estimate(session.state),
        dropped_messages=made.dropped,
        summary=made.summary,
        method=made.method,
        shortened=made.shortened,
        cut_before=made.cut_before,
        cut_to=made.cut_to,
        level=made.level,
        fixed_tokens=tokens(fixed, known),
    )
    if made.dropped:
        fact = await _summed_up(session, interrupts, made, fact)
    after = pruned(session.transcript, fact).turns
    if fact.method != "none":
        fact = evolve(fact, after_tokens=tokens(fixed + after.size, known))
    session.note(evolve(fact, kept=len(after)))


async def _summed_up(session: RunSession, interrupts: Interrupts, made: Plan, fact: f.ContextPruned) -> f.ContextPruned:
    """With the words of the model that sums up, if there is one; what goes wrong with it is no reason to stop."""
    question = _question(session, made)
    if question is None:
        return fact
    request, version = question
    asked = sha256([request.system, list(request.messages)])
    session.note(f.SummaryRequested(model=request.model, request_sha256=asked, prompt_version=version))
    session.flush()
    try:
        reply = await ask_aside(session, interrupts, request, SUMMARY_SECONDS)
    except (p.ModelError, TimeoutError) as error:
        return evolve(fact, why_no_model=one_line(f"{type(error).__name__}: {error}"))
    return _with_words(session, made, fact, request.model, reply)


def _with_words(
    session: RunSession, made: Plan, fact: f.ContextPruned, model: str, reply: ModelReply
) -> f.ContextPruned:
    fact = evolve(fact, model=model, usage=reply.usage)
    words = reply.text.strip()
    most = len(made.summary) + SUMMARY_TOKENS * int(CAUTIOUS)
    if not words or len(words) > most:
        return evolve(fact, why_no_model="no words" if not words else f"{len(words):,} characters, asked for {most:,}")
    told = with_summary(made, f"{heading(session.transcript, made.dropped)}\n{words}").summary
    return evolve(fact, method="summarised", summary=told)


def _question(session: RunSession, made: Plan) -> tuple[ModelRequest, str] | None:
    """What the model that sums up is asked, and the version of the prompt; None without such a model, after a lost
    attempt, and where it is not affordable."""
    state, ask = session.state, session.ports.summary_prompt
    model = state.spec.model_for(ModelRole.SUMMARISER.value)
    if ask is None or model == state.spec.model_for(ModelRole.ACTOR.value) or state.windowing.summaries:
        return None
    text = _read_out(session.transcript.turns[: made.dropped + 1])
    system, version = ask(state.spec.goal)
    if tokens_left(state) < len((system + text).encode("utf-8", "replace")) / CAUTIOUS + SUMMARY_TOKENS:
        return None
    request = ModelRequest(
        role=ModelRole.SUMMARISER,
        model=model,
        system=system,
        messages=(message_of("user", [text_block(text)]),),
        max_tokens=SUMMARY_TOKENS,
    )
    return request, version


def _read_out(turns: Sequence[Turn]) -> str:
    """Messages as text, each shortened; the goal is in the question already."""
    lines = [line for turn in turns[1:] for line in _lines(turn)]
    earlier = [text_of for block in turns[0].blocks[1:] if (text_of := str(block.get("text", "")))]
    return "\n".join((*earlier, *lines))[-READ_AT_MOST:]


def _lines(turn: Turn) -> list[str]:
    found = []
    for block in turn.blocks:
        match block.get("type"):
            case "text":
                said = str(block.get("text", ""))
            case "tool_use":
                said = f"calls {block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False, default=str)}"
            case "tool_result":
                said = f"result: {block.get('content')}"
            case _:
                continue
        found.append(f"[{turn.message['role']}] {said[:SHOWN_OF_EACH]}")
    return found
