"""What the conversation costs: making the next request of a long run, and adding to it (SPEC V1, J7).

No server is needed: ``python -m tests.bench.context``.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from loops.engine import facts as f
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.pruning import plan, pruned
from loops.engine.context_window.transcript import Transcript
from loops.engine.values import ModelRole, StopReason, ToolCall, ToolResult, Usage
from loops.llm.anthropic import request as request_of_anthropic
from loops.llm.config import ModelConfig
from loops.llm.openai import request as request_of_openai
from tests import fakes
from tests.bench import report
from tests.bench.work import ARGUMENTS, RESULTS

SHORT, LONG, LONGEST = 20, 500, 5000
LAST = 60
"""Steps at the end that are told."""
CONFIG = ModelConfig(name="bench", provider="anthropic", model_id="bench")


def main() -> None:
    _requests()
    _growth()
    _pruning()
    print(flush=True)


def facts_of(step: int) -> list[f.Fact]:
    """One step: an answer with a call, and its result of 0.8 KB."""
    call = ToolCall(f"call_{step}", "lookup", ARGUMENTS)
    block = {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
    answer = f.ModelAnswered(
        role=ModelRole.ACTOR,
        model="bench",
        provider="none",
        model_id="none",
        stop=StopReason.TOOL_USE,
        usage=Usage(10, 5),
        blocks=({"type": "text", "text": "I look."}, block),
        text="I look.",
        calls=(call,),
    )
    result = ToolResult(ok=True, content=RESULTS[step % len(RESULTS)])
    return [answer, f.ToolCompleted(call_id=f"c{step}.0", tool="lookup", result=result)]


def begun() -> Transcript:
    started = f.RunStarted(spec=fakes.spec(), system="Be good. " * 300, prompt_version="p", tools_sha256="t", at=1)
    return extend(Transcript(), started)


def talk(steps: int, each: Callable[[int, Transcript], None] = lambda step, transcript: None) -> Transcript:
    """A conversation of so many steps; ``each`` is called before each request."""
    transcript = begun()
    for step in range(1, steps + 1):
        each(step, transcript)
        for fact in facts_of(step):
            transcript = extend(transcript, fact)
    return transcript


def _requests() -> None:
    tools = tuple(fakes.Tools({"lookup": str}).specs())
    for name, memo, body in (
        ("anthropic", request_of_anthropic.memo("bench", xml=False), request_of_anthropic.request_body),
        ("openai", request_of_openai.memo(CONFIG, xml=False), request_of_openai.request_body),
    ):
        took: dict[int, list[float]] = {}

        def assemble(step: int, transcript: Transcript, memo: Any = memo, body: Any = body, took: Any = took) -> None:
            began = time.perf_counter()
            request = transcript.request(role=ModelRole.ACTOR, model="bench", tools=tools, max_tokens=100)
            transcript.request_sha256(ModelRole.ACTOR, "bench", "t", 100)
            made = body(request, CONFIG, xml=False, made=memo)
            took.setdefault(step, []).append((time.perf_counter() - began) * 1e3)
            if step == LONG:
                json.dumps(made)

        gc.collect()
        talk(LONG + LAST, assemble)
        early, late = (_median(took, at) for at in (SHORT, LONG))
        said = report.at_most(f"context of a {name} request at step {LONG}, median ms", late, 20)
        print(f"{said}: {early:.2f} at step {SHORT}")


def _growth() -> None:
    """Adding a step to a conversation of 5,000 against one of 20."""
    took: dict[int, list[float]] = {}
    gc.collect()
    transcript = begun()
    for step in range(1, LONGEST + 1):
        facts = facts_of(step)
        began = time.perf_counter()
        for fact in facts:
            transcript = extend(transcript, fact)
        took[step] = [(time.perf_counter() - began) * 1e3]
    early, late = _median(took, SHORT + LAST), _median(took, LONGEST)
    said = report.at_most(f"adding a step, {LONGEST:,} / {SHORT + LAST}", late / early, 1.5)
    print(f"{said}: {early * 1e3:.0f} -> {late * 1e3:.0f} microseconds")


def _pruning() -> None:
    transcript = talk(LONG)
    began = time.perf_counter()
    made = plan(transcript, transcript.turns.size // 2)
    fact = f.ContextPruned(
        before_tokens=0, after_tokens=0, dropped_messages=made.dropped, summary=made.summary, method=made.method
    )
    after = pruned(transcript, fact)
    took = (time.perf_counter() - began) * 1e3
    print(f"pruning {LONG} steps: {took:.0f} ms, {len(transcript.turns)} -> {len(after.turns)} messages")


def _median(took: dict[int, list[float]], at: int) -> float:
    window: Sequence[float] = [ms for step in range(max(1, at - LAST + 1), at + 1) for ms in took[step]]
    return statistics.median(window)


if __name__ == "__main__":
    main()
