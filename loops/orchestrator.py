"""Between agents and everything they want of the world: tools, a second opinion, people (SPEC G2, I1, decision 83)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from loops.engine import ports as p
from loops.engine.encoding import strict_json
from loops.engine.encoding.codec import to_plain
from loops.engine.text.truncation import cut, quoted, shortened
from loops.engine.values import Json, ModelRequest, ModelRole, ToolCall, ToolResult
from loops.llm import prompts

CONFIDENCE_TOKENS = 1024
GOAL_CHARS, EVIDENCE_CHARS, REASON_CHARS = 8_000, 20_000, 500
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
FindSpecialist = Callable[[ToolCall, p.CallContext], p.Specialist]


class Orchestrator:
    """One for each run: ``tools`` is the TAS, ``models`` the model service, ``gatekeeper`` the way to people, and
    ``specialists`` knows which other agents of the project may do a call. Implements ``ports.Orchestration``."""

    def __init__(
        self,
        *,
        tools: p.Tools,
        models: p.Models,
        gatekeeper: p.Gatekeeper,
        specialists: FindSpecialist = lambda call, context: p.Specialist(),
    ) -> None:
        self.tools = tools
        self._models = models
        self._gatekeeper = gatekeeper
        self._specialists = specialists

    async def execute_tool(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        """Through the TAS, the only way there is (SPEC I1)."""
        return await self.tools.execute(call, context, on_output)

    def confidence_request(self, evidence: Mapping[str, Json], *, goal: str, model: str) -> ModelRequest:
        """What the confidence role reads: its own prompt, the goal and what was measured; never the conversation."""
        text = cut(json.dumps(to_plain(evidence), ensure_ascii=False, default=str), EVIDENCE_CHARS)
        return ModelRequest(
            role=ModelRole.CONFIDENCE,
            model=model,
            system=prompts.load("confidence").fill(goal=cut(goal, GOAL_CHARS)),
            messages=({"role": "user", "content": [{"type": "text", "text": text}]},),
            max_tokens=CONFIDENCE_TOKENS,
        )

    async def evaluate_confidence(self, request: ModelRequest) -> p.Opinion:
        """Ask the confidence role (SPEC G2). An opinion that cannot be had, or read, has no score and says why."""
        try:
            reply = await self._models.call(request, lambda event: None)
        except p.ModelError as error:
            return p.Opinion(None, problem=f"The model did not answer: {error.code}: {shortened(error.message, 300)}")
        score, progress, reason, problem = parse_confidence(reply.text)
        return p.Opinion(
            score=score,
            reason=reason,
            progress=progress,
            problem=problem,
            usage=reply.usage,
            provider=reply.provider,
            model_id=reply.model_id,
            request_id=reply.request_id,
            duration_ms=reply.duration_ms,
        )

    def find_specialist(self, call: ToolCall, context: p.CallContext) -> p.Specialist:
        """An agent of the project whose type may do this very call (SPEC I4)."""
        return self._specialists(call, context)

    def create_gate(self, request: p.GateRequest) -> p.Within:
        """The write that opens a gate; it joins the transaction of the fact that says so."""
        return self._gatekeeper.open(request)


def parse_confidence(text: str) -> tuple[float | None, float | None, str, str]:
    """(score, progress, reason, problem) of the confidence role's answer; a number that is none from 0 to 1 is None."""
    found = _OBJECT.search(text)
    try:
        answer = strict_json.read(found.group()) if found else None
    except strict_json.NotJson:
        answer = None
    if not isinstance(answer, dict):
        return None, None, "", f"The answer is no JSON object: {quoted(text, 200)}"
    score = _share(answer.get("confidence"))
    if score is None:
        return None, None, "", f"The answer has no confidence from 0 to 1: {quoted(text, 200)}"
    return (
        score,
        _share(answer.get("progress")),
        shortened(str(answer.get("reason") or "no reason given"), REASON_CHARS),
        "",
    )


def _share(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None  # type: ignore[operator, arg-type]
