"""Between agents and everything they want of the world: tools, a second opinion, people (SPEC G2, I1, decision 83)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from loops.engine import ports as p
from loops.engine.codec import to_plain
from loops.engine.values import Json, ModelRequest, ModelRole, ToolCall, ToolResult, Usage
from loops.llm import prompts

CONFIDENCE_TOKENS = 1024
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Confidence:
    """How likely an agent is to reach its goal, 0 to 1, and why. An answer that cannot be read counts as 0."""

    score: float
    reason: str
    usage: Usage = field(default_factory=Usage)


class Orchestrator:
    """One for each run: ``tools`` is the TAS, ``models`` the model service, ``gatekeeper`` the way to people."""

    def __init__(self, *, tools: p.Tools, models: p.Models, gatekeeper: p.Gatekeeper) -> None:
        self.tools = tools
        self._models = models
        self._gatekeeper = gatekeeper

    async def execute_tool(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        """Through the TAS, the only way there is (SPEC I1)."""
        return await self.tools.execute(call, context, on_output)

    async def evaluate_confidence(self, request: Mapping[str, Json], *, model: str) -> Confidence:
        """Ask the confidence role, with its own prompt and without the agent's conversation (SPEC G2).

        An opinion that cannot be had is no confidence: the score is 0 and the reason says what happened.
        """
        evidence = {name: value for name, value in request.items() if name != "goal"}
        text = json.dumps(to_plain(evidence), ensure_ascii=False, default=str)
        asked = ModelRequest(
            role=ModelRole.CONFIDENCE,
            model=model,
            system=prompts.load("confidence").fill(goal=str(request.get("goal", ""))),
            messages=({"role": "user", "content": [{"type": "text", "text": text}]},),
            max_tokens=CONFIDENCE_TOKENS,
        )
        try:
            reply = await self._models.call(asked, lambda event: None)
        except p.ModelError as error:
            return Confidence(0.0, f"The confidence could not be evaluated: {error.code}: {error.message[:300]}")
        score, reason = parse_confidence(reply.text)
        return Confidence(score, reason, reply.usage)

    def create_gate(self, request: p.GateRequest) -> p.Within:
        """The write that opens a gate; it joins the transaction of the fact that says so."""
        return self._gatekeeper.open(request)


def parse_confidence(text: str) -> tuple[float, str]:
    """(score, reason) of the confidence role's answer; (0.0, what is wrong) when it is not as asked for."""
    found = _OBJECT.search(text)
    try:
        answer = json.loads(found.group()) if found else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return 0.0, f"The answer is no JSON object: {text[:200]!r}"
    score = answer.get("confidence")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return 0.0, f"The answer has no confidence from 0 to 1: {text[:200]!r}"
    return float(score), str(answer.get("reason") or "no reason given")[:500]
