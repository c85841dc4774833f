"""Prompts are templates in files, known by the hash of their content (SPEC U3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_PLACE = re.compile(r"\{\{ *([a-z_]+) *\}\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Prompt:
    """``version_hash`` is the SHA-256 of the template as it stands in the file, in hex."""

    name: str
    version_hash: str
    text: str

    @property
    def version(self) -> str:
        """Name and hash, as facts record what was asked."""
        return f"{self.name}:{self.version_hash}"

    @property
    def places(self) -> frozenset[str]:
        """The names a caller has to give values for."""
        return frozenset(_PLACE.findall(self.text))

    def fill(self, **values: str) -> str:
        """Put values in, in one pass: what a value contains is never read as a template. Raises KeyError when the
        names differ from the template's, so that a renamed place can't stay empty unseen."""
        given = frozenset(values)
        if given != self.places:
            raise KeyError(f"prompt {self.name}: {sorted(given ^ self.places)} given or wanted, but not both")
        return _PLACE.sub(lambda place: values[place.group(1)], self.text)


@cache
def load(name: str) -> Prompt:
    """Raises KeyError for a name that is no prompt."""
    path = _FOLDER / f"{name}.md"
    if not _NAME.fullmatch(name) or not path.is_file():
        raise KeyError(f"no prompt {name!r}; there are: {', '.join(prompt_names())}")
    return of(name, path.read_bytes())


def of(name: str, content: bytes) -> Prompt:
    """The prompt that a file of this content holds: another byte, another version."""
    return Prompt(name, hashlib.sha256(content).hexdigest(), content.decode("utf-8"))


def prompt_names() -> list[str]:
    """Every prompt there is."""
    return sorted(path.stem for path in _FOLDER.glob("*.md"))


def versions(names: list[str]) -> Mapping[str, str]:
    """Name -> hash, for provenance."""
    return {name: load(name).version_hash for name in names}
