"""What a configured model is: the row an admin edits, as a value (SPEC S3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

Provider = str
"""The name of one of ``loops.llm.providers``, or of an installed package."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """``name`` is what requests use. ``model_id`` is the provider's id, a script's name for "scripted", and
    "path.jsonl.gz#id of the run" for "replay". Prices are US dollars for a million tokens; without them the public
    price list decides. ``first_byte`` is the longest silence before an answer begins, ``timeout`` the longest between
    two bytes of it, in seconds; ``at_once`` is how many calls its endpoint takes at once, 0 for any number.

    ``max_tokens`` caps every request when above 0. ``thinking`` and ``xml_tools`` apply to requests that don't ask
    for either themselves. ``pace`` is the pause between two chunks of a scripted model, in seconds. ``fallback`` names
    the model to ask while this one cannot be reached, "" for none.
    """

    name: str
    provider: Provider
    model_id: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    max_tokens: int = 0
    thinking: str = "off"
    xml_tools: bool = False
    input_price: Decimal | None = None
    output_price: Decimal | None = None
    cache_read_price: Decimal | None = None
    cache_write_price: Decimal | None = None
    timeout: float = 120.0
    first_byte: float = 0.0
    """0: as ``timeout``."""
    connect_timeout: float = 10.0
    pace: float = 0.03
    fallback: str = ""
    at_once: int = 0
    refused: str = ""
    """Why it may not be asked, for people; then it has no key."""
    inward: bool = True
    """May its address lead to this machine or its networks?"""
    seat: str = ""
    """What its calls take their turns at: the same for all models of one endpoint."""

    @property
    def silence_s(self) -> tuple[float, float]:
        """(before the first byte, between two later ones)."""
        return self.first_byte or self.timeout, self.timeout
