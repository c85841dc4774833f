"""Known secrets are masked before anything is written or shown (SPEC S3): the one place that knows them.

Values of variables that are named like a secret, of the keys of models, and what settings tell of database, broker and
signing key. A value that is short, or a common word, stands in too many texts that mean something else: it is left
alone, and ``doctor`` says so. No framework here; the values never leave this process.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from loops.engine.encoding.replace import evolve

SHORTEST = 8
NAMED_LIKE_ONE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
ADDRESSES = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "EMAIL_URL")
COMMON = frozenset(
    {
        *("12345678", "123456789", "1234567890", "administrator", "agentops", "anonymous", "changeme", "change-me"),
        *("database", "development", "disabled", "localhost", "optional", "password", "postgres", "postgresql"),
        *("production", "required", "undefined", "username"),
    }
)
DEEPEST = 50
TOO_DEEP = "[masked: nested]"
"""Instead of all that lies deeper and holds a secret somewhere."""
MARK = re.compile(r"\[masked: [A-Za-z0-9_]{1,100}\]")
REFUSED = (
    "the arguments hold a secret of this installation, or the sign [masked: NAME] that stands for one; what runs is "
    "never changed, so the call is refused: work around that place"
)
LEAVE_OUT = "It holds a secret of this installation, which would be kept and shown: leave it out. Nothing was stored."
T = TypeVar("T")


class Masker:
    """Replaces known values by ``[masked: NAME]``, in whatever spelling they stand."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = {name: value for name, value in values.items() if value}
        self.weak = sorted(name for name, value in self.values.items() if _is_weak(value))
        found: dict[str, str] = {}
        for name, value in self.values.items():
            if name not in self.weak and not _is_no_secret(value):
                for spelling in _spellings(value):
                    found.setdefault(spelling, f"[masked: {name}]")
        self._needles = sorted(found.items(), key=lambda item: -len(item[0]))
        self._bytes = [(needle.encode("utf-8", "surrogatepass"), mark.encode()) for needle, mark in self._needles]

    def text(self, text: str) -> str:
        """``text`` without known values; the very object where it holds none."""
        for needle, mark in self._needles:
            if needle in text:
                text = text.replace(needle, mark)
        return text

    def data(self, data: bytes) -> bytes:
        """The same for bytes that are shown and kept as text."""
        for needle, mark in self._bytes:
            if needle in data:
                data = data.replace(needle, mark)
        return data

    def value(self, value: T) -> T:
        """JSON values and frozen dataclasses, keys of mappings included; the very object where nothing was masked."""
        return self._masked(value, 0) if self.is_in(value) else value

    def is_in(self, value: Any) -> bool:
        """Does a value hold a known one, however deep?"""
        return any(needle in text for text in _strings(value) for needle, _ in self._needles)

    def _masked(self, value: Any, depth: int) -> Any:
        if not self.is_in(value):
            return value
        if isinstance(value, str):
            return self.text(value)
        if depth > DEEPEST:
            return TOO_DEEP
        if isinstance(value, Mapping):
            return {self._masked(key, depth): self._masked(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)([self._masked(item, depth + 1) for item in value])
        return self._masked_fields(value, depth + 1)

    def _masked_fields(self, value: Any, depth: int) -> Any:
        old = {field.name: getattr(value, field.name) for field in fields(value)}
        new = {name: self._masked(item, depth) for name, item in old.items()}
        changed = {name: item for name, item in new.items() if item is not old[name]}
        return evolve(value, **changed) if hasattr(value, "__dict__") else replace(value, **changed)

    def held_back(self, text: str) -> int:
        """How many characters at the end of ``text`` may be the beginning of a known value."""
        longest = 0
        for needle, _ in self._needles:
            for size in range(min(len(needle) - 1, len(text)), longest, -1):
                if text.endswith(needle[:size]):
                    longest = size
                    break
        return longest


class StreamMasker:
    """``text`` for text in pieces: a value that is cut by the stream is masked as well."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What may be shown by now."""
        masker = known()
        text = masker.text(self._held + piece)
        back = masker.held_back(text)
        self._held = text[len(text) - back :]
        return text[: len(text) - back]

    def finish(self) -> str:
        """What was held back and came to nothing."""
        held, self._held = self._held, ""
        return held


def of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Secrets by the names of their variables, and those inside of addresses."""
    named = {name: value.strip() for name, value in environ.items() if NAMED_LIKE_ONE.search(name)}
    for name in ADDRESSES:
        if password := _password(environ.get(name, "")):
            named[f"{name}_PASSWORD"] = password
    return named


def known() -> Masker:
    """What this process knows."""
    return _masker


def learn(values: Mapping[str, str]) -> None:
    """Mask these too, from now on."""
    global _masker  # of the process, as its environment is
    new = {name: value for name, value in values.items() if value and _masker.values.get(name) != value}
    if new:
        _masker = Masker({**_masker.values, **new})


def holds_mark(value: Any) -> bool:
    """Does a JSON value hold the sign that stands for a secret?"""
    return any("[masked: " in text and MARK.search(text) for text in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    """Every string in a value, without recursion: what models and people write is nested as deep as they like."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            left += one
        elif is_dataclass(one) and not isinstance(one, type):
            left += [getattr(one, field.name) for field in fields(one)]


def _password(address: str) -> str:
    try:
        return unquote(urlsplit(address).password or "")
    except ValueError:
        return ""


def _is_weak(value: str) -> bool:
    return len(value) < SHORTEST or value.lower() in COMMON or len(set(value)) == 1


def _is_no_secret(value: str) -> bool:
    """A path of a file with a key, a number, a switch: it only stands in a variable that is named like a secret."""
    return value.startswith("/") or value.isdecimal()


def _spellings(value: str) -> set[str]:
    as_json = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {value, quote(value, safe=""), *as_json}


_masker = Masker(of_environment(os.environ))
