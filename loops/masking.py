"""Known secrets are masked before anything is written or shown (SPEC S3): the one place that knows them.

Values of variables that are named like a secret, of the keys of models, and what settings tell of database, broker and
signing key. A value that is short, or a common word, stands in too many texts that mean something else: it is left
alone, and ``doctor`` says so. What only says that there is none, a word, path or address of the environment,
and what ``AGENTOPS_NOT_SECRETS`` names are no secrets at all. No framework here; the values never leave this process.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from loops.engine.encoding.replace import evolve

SHORTEST = 8
NOT_SECRETS = "AGENTOPS_NOT_SECRETS"
"""The variable that names others whose values are none, with commas between them."""
PASSWORDS = ("password", "passwd", "passphrase")
"""People choose them, of words as well, so a word is one where they are named."""
PARTS = frozenset(
    {
        *("key", "keys", "apikey", "apikeys", "accesskey", "secretkey", "privatekey"),
        *("token", "tokens", "secret", "secrets", "passwords", "credential", "credentials", *PASSWORDS),
    }
)
ENDINGS = ("token", "secret", "apikey", *PASSWORDS)
"""Of parts that have grown together, such as PGPASSWORD; no other words end with them, as MONKEY does with KEY."""
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
WORD = re.compile(r"(?!sk-)[A-Za-z][a-z]{0,19}(?:[-_.][A-Za-z][a-z]{0,19}|[A-Z][a-z]{2,19})*")
"""Words as programs and their settings spell them: last-modified, created_at, safe.directory, BigAutoField."""
CODED_WORD = re.compile(
    r"(?!sk-)(?=[A-Za-z]\w*[-_.])(?:[A-Za-z][a-z]{0,11}[-_.]){0,2}"
    r"(?:[A-Za-z][a-z]{0,11}|(?:[A-Za-z][a-z]{0,7})?(?:\d{1,3}|2048|4096|25519)[a-z]{0,2})"
    r"(?:[-_.][A-Za-z][a-z]{0,11})?(?:[-_.]v?\d{1,2}[a-z]?)?"
)
"""Short words with few digits in one of them or at the end, as regions, algorithms and formats are called:
eu-central-1, id_ed25519, cl100k_base, argon2id-v19. Without anything between its parts it might be a password."""
OWN_PATH = re.compile(r"(?:~|\.{1,2})/\S*")
PLAIN_ADDRESS = re.compile(r"https?://[^\s/?#@]+(?P<behind>(?:[/?#]\S*)?)")
SHORT_PART = re.compile(r"[A-Za-z]{0,7}[0-9.]{0,3}")
NONE = frozenset(
    {
        *("none", "null", "nil", "empty", "unset", "unused", "dummy", "fake", "lm-studio", "ollama", "no-key"),
        *("no-key-required", "not-needed", "not-required", "not-set", "sk-no-key-required", "true", "false"),
    }
)
"""What people write where a program wants a key and its server needs none."""
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
MARK = re.compile(r"\[masked: ([A-Za-z0-9_]{1,100})\]")
WAY_OUT = f"A person can name a variable whose value is no secret in {NOT_SECRETS}"
REFUSED = (
    "the arguments hold the value of {names}, a secret of this installation, or the sign [masked: NAME] that stands "
    f"for it; what runs is never changed, so the call is refused: work around that place. {WAY_OUT}"
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
    named = {name: value.strip() for name, value in environ.items() if _is_named_like_one(name)}
    inside = {f"{name}_PASSWORD": _password(environ.get(name, "")) for name in ADDRESSES}
    return _without_none(named | {name: value for name, value in inside.items() if value}, environ)


def known() -> Masker:
    """What this process knows."""
    return _masker


def not_secrets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Variables whose values are none, as somebody says who knows."""
    return sorted({name.strip() for name in environ.get(NOT_SECRETS, "").split(",")} - {""})


def learn(values: Mapping[str, str], *, configured: bool = False) -> None:
    """Mask these too, from now on. What is ``configured`` as a secret is one, whatever it looks like."""
    values = values if configured else _without_none(values, os.environ)
    global _masker  # of the process, as its environment is
    new = {name: value for name, value in values.items() if value and _masker.values.get(name) != value}
    if new:
        _masker = Masker({**_masker.values, **new})


def signs_in(value: Any) -> list[str]:
    """The names of the secrets whose signs stand in a JSON value."""
    return sorted({name for text in _strings(value) if "[masked: " in text for name in MARK.findall(text)})


def _strings(value: Any) -> list[str]:
    """Every string in a value, without recursion: what models and people write is nested as deep as they like."""
    found, left = list[str](), [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            left += one
        elif is_dataclass(one) and not isinstance(one, type):
            left += [getattr(one, field.name) for field in fields(one)]
    return found


def _password(address: str) -> str:
    try:
        return unquote(urlsplit(address).password or "")
    except ValueError:
        return ""


def _is_named_like_one(name: str) -> bool:
    parts = [part.lower() for part in PART.findall(name)]
    return any(part in PARTS or part.endswith(ENDINGS) for part in parts)


def _without_none(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Those of the environment that may be secrets."""
    named = {*not_secrets(environ), NOT_SECRETS}
    return {name: value for name, value in values.items() if name not in named and not _is_none(name, value)}


def stands_for_none(value: str) -> bool:
    """Is it what people write where a program wants a key and its server needs none?"""
    return value.lower().replace("_", "-") in NONE


def _is_none(name: str, value: str) -> bool:
    """It says that there is none, or is a word, a path or an address: half of what programs print would be masked."""
    if stands_for_none(value):
        return True
    return not name.lower().endswith(PASSWORDS) and (
        _is_word(value) or bool(OWN_PATH.fullmatch(value)) or _is_plain_address(value)
    )


def _is_word(value: str) -> bool:
    """Words that are weak stay secrets, for ``doctor`` to name."""
    is_strong = len(value) >= SHORTEST and value not in COMMON
    return is_strong and bool(WORD.fullmatch(value) or CODED_WORD.fullmatch(value))


def _is_plain_address(value: str) -> bool:
    """Neither who logs in stands in it, nor anything but words behind the host: some services hide a key there."""
    found = PLAIN_ADDRESS.fullmatch(value)
    if found is None:
        return False
    parts = re.split(r"[/?#&=]+", found["behind"])
    return all(SHORT_PART.fullmatch(part) or _is_word(part.lstrip(".")) for part in parts)


def _is_weak(value: str) -> bool:
    return len(value) < SHORTEST or value.lower() in COMMON or len(set(value)) == 1


def _is_no_secret(value: str) -> bool:
    """A path of a file with a key, a number, a switch: it only stands in a variable that is named like a secret."""
    return value.startswith("/") or value.isdecimal()


def _spellings(value: str) -> set[str]:
    as_json = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {value, quote(value, safe=""), *as_json}


_masker = Masker(of_environment(os.environ))
