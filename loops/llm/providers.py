"""Providers by name: our own, and those of installed packages by the entry point ``agentops.providers`` (SPEC S3).

A provider makes an adapter for a configured model. The modules with SDKs are imported when a worker asks for the first
time, and not before.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol, TypeVar

from loops.engine import packages
from loops.engine.packages import Broken, UnfitError
from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelEvent, ModelReply, ModelRequest
from loops.llm.config import ModelConfig
from loops.llm.transport_errors import configuration_failure, http_failure, wire_failure

ENTRY_POINTS = "agentops.providers"
OnEvent = Callable[[ModelEvent], None]
T = TypeVar("T")


class Adapter(Protocol):
    """What every provider's adapter can do."""

    async def call(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        """Answer one request. Raises ModelError."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


Build = Callable[[ModelConfig], Adapter]


@dataclass(frozen=True, slots=True)
class Provider:
    """``label`` is for people; ``module`` is imported off the event loop before ``build`` is called in it. ``address``
    is asked where a model names none; ``request`` is the module whose ``request_body`` shows what is sent."""

    name: str
    label: str
    build: Build
    module: str = ""
    address: str = ""
    request: str = ""


class UnknownProvider(Exception):
    """No provider of this name can be used; the message says which can, or what is wrong with it."""


def _anthropic(config: ModelConfig) -> Adapter:
    from loops.llm.anthropic.adapter import AnthropicModel

    return AnthropicModel(config)


def _openai(config: ModelConfig) -> Adapter:
    from loops.llm.openai.adapter import OpenAIModel

    return OpenAIModel(config)


def _scripted(config: ModelConfig) -> Adapter:
    from loops.llm.scripted.adapter import ScriptedModel
    from loops.llm.scripted.scripts import find_script

    return ScriptedModel(_found(find_script, config), config.pace)


def _replay(config: ModelConfig) -> Adapter:
    from loops.llm.replay import ReplayModel, find_recording

    return ReplayModel(_found(find_recording, config))


OURS = {
    each.name: each
    for each in (
        Provider(
            "anthropic",
            "Anthropic",
            _anthropic,
            "loops.llm.anthropic.adapter",
            "https://api.anthropic.com",
            "loops.llm.anthropic.request",
        ),
        Provider(
            "openai",
            "OpenAI-compatible",
            _openai,
            "loops.llm.openai.adapter",
            "https://api.openai.com",
            "loops.llm.openai.request",
        ),
        Provider("scripted", "Scripted (no language model)", _scripted),
        Provider("replay", "Replay of a recording", _replay),
    )
}
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,19}")
_others: dict[str, Provider] = {}
_broken: list[Broken] = []
_loaded = False
_lock = threading.RLock()


def get(name: str) -> Provider:
    """The provider of that name, ready to build. Raises UnknownProvider."""
    if found := OURS.get(name):
        if found.module:
            import_module(found.module)
        return found
    _load()
    if name in _others:
        return _others[name]
    if broken := next((each for each in _broken if each.name == name), None):
        raise UnknownProvider(str(broken))
    raise UnknownProvider(f"no provider named {name!r}; there are: {', '.join(dict(choices()))}")


def choices() -> list[tuple[str, str]]:
    """(name, label) of those that can be used, our own first."""
    _load()
    return [(each.name, each.label) for each in (*OURS.values(), *sorted(_others.values(), key=lambda one: one.name))]


def broken() -> tuple[Broken, ...]:
    """Those that an installed package should have brought."""
    _load()
    return tuple(_broken)


def forget() -> None:
    """Read what is installed anew, the next time somebody asks; for tests."""
    global _loaded
    with _lock:
        _loaded = False
        _others.clear()


def _load() -> None:
    global _loaded
    with _lock:
        if not _loaded:
            _loaded = True
            _broken[:] = packages.load(ENTRY_POINTS, "provider", _take)


def _take(name: str, load: Callable[[], Any]) -> None:
    """Keep what an entry point names: a function that makes an adapter of a ModelConfig."""
    if not _NAME.fullmatch(name):
        raise UnfitError("its name takes 1 to 20 of a-z 0-9 _ -, a letter first")
    if name in OURS or name in _others:
        raise UnfitError(f"the name {name!r} is taken")
    build = load()
    if not callable(build):
        raise UnfitError(f"it names a {type(build).__name__}; it takes a function of a ModelConfig")
    _others[name] = Provider(name, f"{name} (of a package)", lambda config: _Guest(name, build, config))


class _Guest:
    """An adapter of another package: whatever goes wrong in it is a failure of the model call, with its name."""

    def __init__(self, name: str, build: Build, config: ModelConfig) -> None:
        self._name, self._secret = name, config.api_key
        try:
            self._adapter = build(config)
        except (Exception, SystemExit) as error:  # of somebody else's code
            raise self._failed(error) from error

    async def call(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        """Answer one request. Raises ModelError alone, but for cancellation."""
        try:
            reply = await self._adapter.call(request, on_event)
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            raise _failure_of_wire(error, self._secret) or self._failed(error) from error
        if not isinstance(reply, ModelReply):
            raise self._failed(TypeError(f"it answered with a {type(reply).__name__}, which is no ModelReply"))
        return replace(reply, provider=self._name)

    async def close(self) -> None:
        """Close its connections, as far as it does."""
        try:
            await self._adapter.close()
        except (Exception, SystemExit) as error:
            packages.log.warning("the provider %r does not close: %s", self._name, error)

    def _failed(self, error: BaseException) -> ModelError:
        """An error of somebody else's code: asked again, it would fail again."""
        said = f"the provider {self._name!r} failed: {type(error).__name__}: {error}"
        return configuration_failure("provider_failed", said, self._secret)


def _failure_of_wire(error: BaseException, secret: str) -> ModelError | None:
    """What a server or a connection did, as for our own providers; None for anything else."""
    import httpx2

    from loops.llm.endpoints.connections import AddressRefused, RedirectRefused

    match error:
        case httpx2.HTTPStatusError():
            answer = error.response
            return http_failure(answer.status_code, answer.content, answer.headers, secret)
        case AddressRefused() | RedirectRefused():
            return configuration_failure("address_not_allowed", str(error), secret)
        case httpx2.TimeoutException() | TimeoutError():
            return wire_failure("timeout", str(error), secret)
        case httpx2.TransportError() | ConnectionError():
            return wire_failure("connection_failed", f"{type(error).__name__}: {error}", secret)
    return None


def _found(find: Callable[[str], T], config: ModelConfig) -> T:
    try:
        return find(config.model_id)
    except (KeyError, OSError) as error:
        raise unknown(config, str(error)) from error


def unknown(config: ModelConfig, why: str) -> ModelError:
    """The failure of a call of a model that cannot be built."""
    message = f"model {config.name!r} can't be used: {why}"
    return ModelError(message, kind=FailureKind.UNRECOVERABLE, code="unknown_model")
