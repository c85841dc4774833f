"""The configured models as the port ``Models``: the right adapter for a request, and a price on each reply.

Adapters hold connections that belong to one event loop, so they are built for the loop that asks, on first use. The
SDKs are imported then and not before: importing this module costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from weakref import WeakKeyDictionary

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelReply, ModelRequest
from loops.llm import providers
from loops.llm.config import ModelConfig
from loops.llm.fallback import chain
from loops.llm.prices import cost_microusd
from loops.llm.providers import Adapter, OnEvent, UnknownProvider, unknown
from loops.llm.transport_errors import configuration_failure


class ModelService:
    """All configured models; see ``loops.engine.ports.Models``."""

    def __init__(self, configs: Mapping[str, ModelConfig]) -> None:
        self._configs = dict(configs)
        self._adapters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Adapter]] = WeakKeyDictionary()

    async def call(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        """Answer one request with the model it names, and price the answer."""
        config = self.config(request.model)
        thinking = config.thinking if request.thinking == "off" else request.thinking
        request = replace(request, thinking=thinking, xml_tools=request.xml_tools or config.xml_tools)
        adapter = await self._adapter(config)
        reply = await adapter.call(request, on_event)
        cost = cost_microusd(reply.usage, reply.model_id, config)
        return replace(reply, usage=replace(reply.usage, cost_microusd=cost))

    def config(self, name: str) -> ModelConfig:
        """The configuration of a name. Raises ModelError when there is none."""
        try:
            return self._configs[name]
        except KeyError:
            known = ", ".join(sorted(self._configs)) or "none"
            raise ModelError(
                f"no model named {name!r} is configured (configured: {known})",
                kind=FailureKind.UNRECOVERABLE,
                code="unknown_model",
            ) from None

    def chain(self, name: str) -> tuple[str, ...]:
        """The model and those to ask instead of it, in order."""
        return chain(self._configs, name)

    def seat(self, name: str) -> tuple[str, int]:
        """What the calls of a model take their turns at, and how many it takes at once; 0 any number."""
        config = self._configs.get(name)
        return (config.seat, config.at_once) if config is not None else ("", 0)

    async def close(self) -> None:
        """Close the connections of the running loop. The service stays usable."""
        for adapter in self._adapters.pop(asyncio.get_running_loop(), {}).values():
            await adapter.close()

    async def _adapter(self, config: ModelConfig) -> Adapter:
        adapters = self._adapters.setdefault(asyncio.get_running_loop(), {})
        if config.name not in adapters:
            await _load_provider(config.provider)
            if config.name not in adapters:
                adapters[config.name] = build_adapter(config)
        return adapters[config.name]


def build_adapter(config: ModelConfig) -> Adapter:
    """That of the model's provider. Raises ModelError where it cannot be made."""
    if config.refused:
        raise configuration_failure("address_not_allowed", f"model {config.name!r} is not asked: {config.refused}")
    config = replace(config, api_key=config.api_key.strip())
    if not (config.api_key.isascii() and config.api_key.isprintable()):
        raise configuration_failure("bad_api_key", f"the key of model {config.name!r} holds characters no key has")
    try:
        return providers.get(config.provider).build(config)
    except UnknownProvider as error:
        raise unknown(config, str(error)) from error


async def _load_provider(name: str) -> None:
    """Off the loop: importing an SDK takes seconds on a busy machine, and a person's stop must not wait for it."""
    with suppress(UnknownProvider):  # whoever builds its adapter says so
        await asyncio.to_thread(providers.get, name)
