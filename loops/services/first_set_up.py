"""A first set-up that works: a model, a workspace and an agent for real work, each made once (SPEC S3, T3).

All of it by the services that every door has; what exists stays as people made it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loops.llm import config
from loops.llm.endpoints.context_window_discovery import ask_models
from loops.llm.endpoints.keys import OF_PROVIDERS
from loops.llm.providers import OURS
from loops.models import Agent, ModelConfig, Project, Workspace
from loops.services import models
from loops.services.agents import AGENTS
from loops.services.configuration import Unfit
from loops.services.model_configs import ENVIRONMENT_NAME, MODELS
from loops.workspaces.configured import WORKSPACES

ENGINEER = "Engineer"
INSTRUCTIONS = (
    "Read the README and the code around a change before you make it, and keep to the conventions that you find there. "
    "Run the project's own tests before and after. Change as little as the task needs. Never change, skip or remove a "
    "test to make it pass, unless the task is about that test. At the end say what you changed, what you checked and "
    "how, and what you could not check."
)
"""Of the agent for people's own repositories."""
NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
LONGEST_NAME = 50


@dataclass(frozen=True, slots=True)
class Made:
    """A row, and whether it is new."""

    row: Any
    is_new: bool


def suggested_source(environ: Mapping[str, str] = os.environ) -> str:
    """The variable or address of a model that the environment offers, or ""."""
    if environ.get("ANTHROPIC_API_KEY"):
        return "ANTHROPIC_API_KEY"
    return environ.get("OPENAI_BASE_URL") or ("OPENAI_API_KEY" if environ.get("OPENAI_API_KEY") else "")


def known_source() -> str:
    """The same of the first model of a provider that is set up here already, or ""."""
    row = next((row for row in ModelConfig.objects.order_by("pk") if not row.is_scripted), None)
    return (row.base_url or row.api_key_env) if row else ""


def model_from(
    source: str, *, actor: Any, model_id: str = "", allow: bool = False, environ: Mapping[str, str] = os.environ
) -> Made:
    """The model behind ``source``, the name of a variable or the address of an OpenAI-compatible server. Raises Unfit
    or NotAllowed."""
    if not source.startswith(("http://", "https://")) and not ENVIRONMENT_NAME.fullmatch(source):
        raise Unfit({"model": "Give the name of an environment variable, like ANTHROPIC_API_KEY, or an address."})
    if not model_id and source in (suggested_source(environ), "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        known = {row.pk for row in ModelConfig.objects.all()}
        for row in models.ensure_default_models(environ):
            if source in (row.api_key_env, row.base_url):
                return Made(row, row.pk not in known)
    fields = _of_provider(source) if ENVIRONMENT_NAME.fullmatch(source) else {"provider": "openai", "base_url": source}
    same = ModelConfig.objects.filter(**fields, **({"model_id": model_id} if model_id else {})).first()
    if same is not None:
        return Made(same, False)
    chosen = model_id or _first_model(fields, environ)
    given = {**fields, "model_id": chosen, "name": _free(chosen, ModelConfig.objects.values_list("name", flat=True))}
    return Made(MODELS.make(actor=actor, given=given, allow=allow), True)


def workspace_of(folder: Path, *, actor: Any, project: Project, allow: bool = False) -> Made:
    """The workspace of a folder, with a copy for each run. Raises Unfit or NotAllowed."""
    rows = Workspace.objects.filter(project=project)
    if (same := rows.filter(path=str(folder)).first()) is not None:
        return Made(same, False)
    given = {"name": _free(folder.name, rows.values_list("name", flat=True)), "path": str(folder)}
    return Made(WORKSPACES.make(actor=actor, project=project, given=given, allow=allow), True)


def engineer(*, actor: Any, project: Project, model: ModelConfig) -> Made:
    """The agent for people's own repositories. Raises Unfit or NotAllowed."""
    if (same := Agent.objects.filter(project=project, name=ENGINEER).first()) is not None:
        return Made(same, False)
    given = {"name": ENGINEER, "actor_model": model, "instructions": INSTRUCTIONS}
    return Made(AGENTS.make(actor=actor, project=project, given=given, reason="First set-up"), True)


def _of_provider(variable: str) -> dict[str, str]:
    if variable not in OF_PROVIDERS:
        known = ", ".join(OF_PROVIDERS)
        raise Unfit({"model": f"Nobody knows which server takes {variable}. Give its address, or one of {known}."})
    address = OF_PROVIDERS[variable]
    if own := next((each.name for each in OURS.values() if each.address == address), ""):
        return {"provider": own, "api_key_env": variable, "base_url": ""}
    return {"provider": "openai", "api_key_env": variable, "base_url": f"{address}{PATHS.get(variable, '/v1')}"}


PATHS = {
    "GEMINI_API_KEY": "/v1beta/openai",
    "GROQ_API_KEY": "/openai/v1",
    "OPENROUTER_API_KEY": "/api/v1",
}
"""Where a provider speaks like OpenAI, if not under /v1."""
FIRST_MODELS = {"anthropic": models.DEFAULT_CLAUDE, "openai": models.DEFAULT_OPENAI}


def _first_model(fields: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The first that its server lists; a key goes along only where it belongs."""
    if not fields["base_url"]:
        if (provider := fields["provider"]) not in FIRST_MODELS:
            raise Unfit({"model": f"No model of {provider} is known by name. Name one with --model-id."})
        return FIRST_MODELS[provider]
    draft = ModelConfig(name="draft", **fields)
    asked: config.ModelConfig = models.config_of(draft, environ)
    listed = [name for name in ask_models(asked) if "embed" not in name.lower()]
    if not listed:
        raise Unfit({"model": f"{fields['base_url']} does not say which models it has. Name one with --model-id."})
    return listed[0]


def _free(wanted: str, taken: Any) -> str:
    """A name that nothing has yet."""
    slug = NOT_IN_A_NAME.sub("-", wanted.lower()).strip("-")[: LONGEST_NAME - 4].strip("-") or "own"
    known = set(taken)
    return next(name for name in (slug, *(f"{slug}-{number}" for number in range(2, 1000))) if name not in known)
