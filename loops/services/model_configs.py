"""Models as people set them up: keys by the names of variables, addresses that a superuser answers for (SPEC S3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from loops.llm import providers
from loops.llm.endpoints.keys import origin_of
from loops.models import ModelConfig, Project
from loops.services import keys
from loops.services.configuration import Kind, Unfit

ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,99}")
THINKING = re.compile(r"off|adaptive|[1-9][0-9]{2,6}")


class ModelConfigs(Kind):
    model = ModelConfig
    of_installation = True
    unchecked = ("provider",)
    CHANGED, DELETED = "model.changed", "model.deleted"

    def faults(self, row: ModelConfig) -> dict[str, str]:
        """Who pastes the key itself is told so before it is stored, and nothing is asked that is no server."""
        found = {}
        if row.provider not in (known := self.providers(row)):
            found["provider"] = f"{row.provider or 'Nothing'} is not one of {', '.join(known)}."
        if row.api_key_env and not ENVIRONMENT_NAME.fullmatch(row.api_key_env):
            found["api_key_env"] = "Give the name of an environment variable, like ANTHROPIC_API_KEY, not the key."
        if not THINKING.fullmatch(row.thinking):
            found["thinking"] = 'Write "off", "adaptive" or a number of tokens.'
        if row.base_url and (said := _no_address(row.base_url)):
            found["base_url"] = said
        return found

    def providers(self, row: ModelConfig) -> dict[str, str]:
        """Those that can be chosen, with labels. As long as the package of its own is gone, a model keeps its name: it
        can be read, not asked."""
        stored = "" if row._state.adding else ModelConfig.objects.values_list("provider", flat=True).get(pk=row.pk)
        return ({stored: stored} if stored else {}) | dict(providers.choices())

    def to_allow(self, row: ModelConfig) -> str:
        """What a superuser has to say yes to before ``row`` is saved; "" for nothing. Raises Unfit for what nobody can
        allow."""
        try:
            return keys.has_to_be_allowed(row)
        except ValueError as error:
            raise Unfit({"api_key_env": str(error)}) from error

    def permit(self, actor: Any, row: ModelConfig, *, allow: bool) -> bool:
        """What is sent where nobody allowed it yet takes a yes."""
        if (asked := self.to_allow(row)) and not allow:
            raise Unfit({"allow": f"{asked} Allow it if that is meant."})
        return bool(asked)

    def affected(self, row: ModelConfig) -> Iterable[Project]:
        """All; a project whose snapshot stays the same gets no version."""
        return Project.objects.all()

    def recorded(self, actor: Any, row: ModelConfig, changed: Iterable[str], *, allow: bool = False) -> None:
        """With who allowed its address."""
        ModelConfig.objects.filter(pk=row.pk).update(vetted=True)
        if allow:
            keys.allow(row, actor=actor)
        super().recorded(actor, row, changed)

    def detail(self, row: ModelConfig) -> dict[str, Any]:
        """The name of its key, never more."""
        return {"model": row.name, "key": row.api_key_env, "address": row.base_url}


def _no_address(url: str) -> str:
    try:
        origin_of(url)
    except ValueError as error:
        return str(error)
    return ""


MODELS = ModelConfigs()
