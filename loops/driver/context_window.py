"""The size of what a model is asked, part by part (SPEC U1)."""

from __future__ import annotations

from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine.encoding.codec import to_plain
from loops.engine.encoding.replace import evolve
from loops.engine.measures.context_budget import tokens, window


def requested(session: RunSession, effect: e.CallModel, model: str) -> f.ModelRequested:
    """The fact of a request that is about to be sent: what identifies it, and how large each part of it is."""
    known, transcript = session.state.windowing, session.transcript
    sizes = {"system": session.system_bytes, "tools": session.tools_bytes, "messages": transcript.turns.size}
    made = f.ModelRequested(
        role=effect.role,
        model=model,
        request_sha256=transcript.request_sha256(effect.role, model, session.tools_sha256, effect.max_tokens),
        attempt=effect.attempt,
        max_tokens=effect.max_tokens,
        tokens={part: tokens(size, known) for part, size in sizes.items()},
        size=sum(sizes.values()),
        dropped=transcript.dropped,
        window=window(session.state),
    )
    if session.tools_sha256 == known.tools_sha256:
        return made
    return evolve(made, tools=tuple(to_plain(spec) for spec in session.specs), tools_sha256=session.tools_sha256)
