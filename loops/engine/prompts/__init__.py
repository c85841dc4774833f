"""What the loop itself says to models: templates in files, each known by the hash of its content (SPEC U3).

``said`` holds what is written, filled, into the fact that says it, or goes along with one request: change it freely.
``folded`` holds what the fold says of facts that have no words of their own. A journal keeps the wording it began with
in its first fact, so a later version folds it to the same conversation. Journals from before that have none: for them
the first wording of ``name`` stays for good, as ``name.first.md``, once ``name.md`` reads differently.

Lists and quotations that fill a place are laid out by whoever fills it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

_PLACE = re.compile(r"\{\{ *([a-z_]+) *\}\}")
_FILE = ".md"
_FIRST = ".first"


@dataclass(frozen=True)
class Template:
    """``content`` as it stands in the file; the line break that ends it is not said."""

    name: str
    content: str

    @cached_property
    def text(self) -> str:
        return self.content.removesuffix("\n")

    @cached_property
    def sha256(self) -> str:
        """Of the file, in hex."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def version(self) -> str:
        """Name and hash, as facts record what was asked."""
        return f"{self.name}:{self.sha256}"

    @cached_property
    def places(self) -> frozenset[str]:
        """The names a caller has to give values for."""
        return frozenset(_PLACE.findall(self.text))

    @property
    def beginning(self) -> str:
        """What every filling of it begins with."""
        return self.text.partition("{{")[0]

    def fill(self, **values: str | int) -> str:
        """Put values in, in one pass: what a value contains is never read as a template. Raises KeyError when the
        names differ from the template's, so that a renamed place can't stay empty unseen."""
        if values.keys() != self.places:
            raise KeyError(f"{self.name}: {sorted(values.keys() ^ self.places)} given or wanted, but not both")
        return _PLACE.sub(lambda place: str(values[place.group(1)]), self.text)


@dataclass(frozen=True)
class Wording:
    """Templates by their names, as they stood at one time."""

    templates: Mapping[str, Template]

    def fill(self, name: str, /, **values: str | int) -> str:
        """That template with its places filled. Raises KeyError for an unknown one, or other places than it has."""
        return self.templates[name].fill(**values)

    def versions(self) -> dict[str, str]:
        """Name -> SHA-256, for provenance."""
        return {name: template.sha256 for name, template in self.templates.items()}

    def contents(self) -> dict[str, str]:
        """Name -> content, for the first fact of a journal."""
        return {name: template.content for name, template in self.templates.items()}


def read(folder: Traversable) -> Wording:
    """The templates that lie in ``folder``, in the order of their names."""
    contents = {file.name.removesuffix(_FILE): file for file in folder.iterdir() if file.name.endswith(_FILE)}
    return Wording({name: Template(name, contents[name].read_bytes().decode()) for name in sorted(contents)})


def of_journal(contents: Mapping[str, str]) -> Wording:
    """How the fold words a journal whose first fact holds ``contents``; the first wording of what it does not hold."""
    return Wording({**FIRST.templates, **{name: Template(name, content) for name, content in contents.items()}})


_SAID, _EVERY_FOLDED = read(files(__package__) / "said"), read(files(__package__) / "folded").templates
FOLDED = Wording({name: template for name, template in _EVERY_FOLDED.items() if not name.endswith(_FIRST)})
FIRST = Wording({name: _EVERY_FOLDED.get(name + _FIRST, template) for name, template in FOLDED.templates.items()})
TODAY = Wording({**_SAID.templates, **FOLDED.templates})
fill = TODAY.fill
