"""The prompts that models are asked with, as templates in files (SPEC U3). ``loops.engine.prompts`` has the rest of
what is said to models, and how templates work."""

from __future__ import annotations

from importlib.resources import files

from loops.engine import prompts
from loops.engine.prompts import Template

PROMPTS = prompts.read(files(__package__))


def load(name: str) -> Template:
    """Raises KeyError for a name that is no prompt."""
    try:
        return PROMPTS.templates[name]
    except KeyError:
        raise KeyError(f"no prompt {name!r}; there are: {', '.join(PROMPTS.templates)}") from None
