"""A server that takes a conversation as JSON and answers in one piece."""

from __future__ import annotations

from typing import Any

from agentops.sdk import (
    Ending,
    FailureKind,
    ModelConfig,
    ModelError,
    ModelReply,
    ModelRequest,
    OnEvent,
    StopReason,
    Usage,
    answer,
    client,
    plain,
)

STOPS = {"end": StopReason.END_TURN, "length": StopReason.MAX_TOKENS, "refused": StopReason.REFUSAL}


class AcmeModel:
    """One configured model. A worker makes one for each of its event loops, and closes it with the run."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._client = client(config)

    async def call(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        """Ask once: AgentOps decides about asking again."""
        response = await self._client.post(
            "/converse", json=self._body(request), headers={"x-acme-key": self._config.api_key}
        )
        response.raise_for_status()
        said: dict[str, Any] = response.json()
        if said.get("stop") == "sleeping":
            raise ModelError("the server wakes up", kind=FailureKind.TRANSIENT, code="sleeping", retry_after_s=0.1)
        end = Ending(
            stop=STOPS.get(said.get("stop", ""), StopReason.OTHER),
            usage=Usage(input_tokens=int(said["tokens"][0]), output_tokens=int(said["tokens"][1])),
            provider="acme",
            model_id=self._config.model_id,
        )
        calls = [(call["tool"], call["arguments"]) for call in said.get("calls", [])]
        return answer(request, on_event, end, text=said.get("text", ""), calls=calls)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": self._config.model_id,
            "system": request.system,
            "messages": plain(request.messages),
            "tools": [{"name": tool.name, "parameters": plain(tool.parameters)} for tool in request.tools],
            "max_tokens": request.max_tokens,
        }
