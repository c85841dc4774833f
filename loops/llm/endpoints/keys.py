"""Which key may go to which address (SPEC S3): a provider's own, the environment's, and what a superuser allowed.

Whoever sets the environment of a worker owns the installation; whoever only names a variable and an address does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from loops import masking
from loops.llm.endpoints.addresses import is_never_a_model
from loops.llm.providers import OURS

OF_PROVIDERS = {
    "ANTHROPIC_API_KEY": "https://api.anthropic.com",
    "DEEPSEEK_API_KEY": "https://api.deepseek.com",
    "GEMINI_API_KEY": "https://generativelanguage.googleapis.com",
    "GROQ_API_KEY": "https://api.groq.com",
    "MISTRAL_API_KEY": "https://api.mistral.ai",
    "OPENAI_API_KEY": "https://api.openai.com",
    "OPENROUTER_API_KEY": "https://openrouter.ai",
    "TOGETHER_API_KEY": "https://api.together.xyz",
    "XAI_API_KEY": "https://api.x.ai",
}
OF_ENVIRONMENT = {"ANTHROPIC_API_KEY": "ANTHROPIC_BASE_URL", "OPENAI_API_KEY": "OPENAI_BASE_URL"}
NO_KEYS = re.compile(
    r"SECRET_KEY|EMAIL_URL|.*DATABASE.*|.*POSTGRES.*|PG[A-Z]+|REDIS_.*|AGENTOPS_.*|DJANGO_.*|APP_PASSWORD"
    r"|PATH|HOME|USER|SSH_.*|SUDO_.*|LD_.*|PYTHON.*"
)
"""AgentOps' own secrets and the machine's variables: no person can allow these."""
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Pair:
    """The name of a variable, "" for none, and the origin of the server that gets its value."""

    key: str
    origin: str


def pair_of(provider: str, key: str, url: str) -> Pair:
    """Return what a model with these fields sends where. Raises ValueError with a sentence for an address that no model
    has."""
    own = OURS[provider].address if provider in OURS else ""
    return Pair(key, origin_of(url or own))


def origin_of(url: str) -> str:
    """``https://host:port`` in one spelling. Raises ValueError with a sentence where the address is none of a model."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise ValueError(f"{url!r} is no address") from None
    if parts.scheme not in _PORTS or not host or any(sign in url for sign in "\\ \t\r\n"):
        raise ValueError("Write an address that starts with https:// or http://.")
    if "@" in parts.netloc:
        raise ValueError("An address holds no name and no password: name the variable with the key instead.")
    _must_be_askable(host)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or _PORTS[parts.scheme]}"


def _must_be_askable(host: str) -> None:
    try:
        address = ip_address(host)
    except ValueError:
        return
    if is_never_a_model(address):
        raise ValueError(f"{host} is an address of the network itself: no model is asked there.")


def belongs(pair: Pair, environ: Mapping[str, str]) -> bool:
    """Is it the provider's own address for its key, or what the environment itself says?"""
    own = OF_PROVIDERS.get(pair.key)
    if own is not None and origin_of(own) == pair.origin:
        return True
    return pair.origin in of_environment(pair.key, environ) or (not pair.key and is_of_provider(pair.origin))


def is_set(key: str, environ: Mapping[str, str]) -> bool:
    """Has the variable a key in it, here or held back for the worker alone?"""
    value = environ.get(key, "") if key else ""
    return bool(key) and (
        bool(value and not masking.stands_for_none(value)) or key in environ.get("AGENTOPS_HELD", "").split(",")
    )


def of_environment(key: str, environ: Mapping[str, str]) -> set[str]:
    """Origins that whoever set the environment named for this key; for "" those of all keys."""
    named = [environ.get(url, "") for name, url in OF_ENVIRONMENT.items() if key in (name, "")]
    return {origin for url in named if url and (origin := _origin_or_none(url))}


def is_of_provider(origin: str) -> bool:
    """The public address of a provider that we know?"""
    return origin in {origin_of(url) for url in OF_PROVIDERS.values()}


def _origin_or_none(url: str) -> str:
    try:
        return origin_of(url)
    except ValueError:
        return ""
