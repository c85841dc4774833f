"""Configured models (SPEC S3). Keys are named by environment variable: read here, never stored, never logged."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, cast

from django.utils import timezone

from loops import masking
from loops.engine.values import ModelRole
from loops.llm import config
from loops.llm.endpoints import keys
from loops.llm.endpoints.addresses import is_private, origin
from loops.llm.endpoints.context_window_discovery import ask_models, ask_window
from loops.llm.endpoints.context_windows import default_window, is_known
from loops.llm.scripted.scripts import find_script, script_names
from loops.models import ModelConfig
from loops.services.keys import Book

SCRIPTED = "demo-scripted"
CLAUDE = "claude"
OPENAI = "openai-compatible"
DEFAULT_CLAUDE = "claude-sonnet-5-5"
DEFAULT_OPENAI = "gpt-5-mini"
SILENCE_S, OWN_SILENCE_S = 120, 600
"""Before an answer and within it. A small machine computes a long question for minutes before it says a word."""
FALLBACKS = "fallback__fallback__fallback"
DEFAULT_SCRIPT = "repair_a_bug"


def model_configs(environ: Mapping[str, str] = os.environ) -> dict[str, config.ModelConfig]:
    """Every configured model by name, with its key, for the adapters."""
    book = Book(environ)
    return {row.name: config_of(row, environ, book) for row in ModelConfig.objects.select_related("fallback")}


def windows() -> dict[str, int]:
    """Tokens that each configured model takes, by its name."""
    return {row.name: window_of(row) for row in ModelConfig.objects.all()}


def window_of(row: ModelConfig) -> int:
    """As an admin said, as its server said, or as is known of the model; an error of the server shows who said too
    much."""
    stated = row.context_window or row.window_found or default_window(row.provider, row.model_id)
    learnt = row.window_source == ModelConfig.WindowSource.LEARNT and row.window_found
    return min(stated, row.window_found or stated) if learnt else stated


def window_in_words(row: ModelConfig) -> str:
    """The window with its source, for people."""
    size = window_of(row)
    if size == row.context_window:
        return f"{size:,} tokens, stated here"
    if size == row.window_found and row.window_at:
        return f"{size:,} tokens, {row.get_window_source_display()} on {row.window_at:%Y-%m-%d %H:%M} UTC"
    return f"{size:,} tokens, {'known of the model' if is_known(row.provider, row.model_id) else 'assumed'}"


def ask_windows(names: Collection[str], environ: Mapping[str, str] = os.environ) -> None:
    """Ask the servers of these models, and of their fallbacks, for what nobody stated, at most every so often."""
    wanted = ModelConfig.objects.select_related(FALLBACKS).filter(name__in=names)
    for row in {model.name: model for found in wanted for model in found.chain()}.values():
        if _is_due(row):
            keep_window(row, ask_window(config_of(row, environ)))


def keep_window(row: ModelConfig, size: int | None) -> None:
    """Keep for all runs what a server said. 0: it said nothing, and what was known stays. None: nobody answered, so it
    is asked again as soon as it is used."""
    if size is None:
        return
    found = {"window_found": size, "window_source": ModelConfig.WindowSource.ASKED} if size else {}
    ModelConfig.objects.filter(pk=row.pk).update(window_at=timezone.now(), **found)


def _is_due(row: ModelConfig) -> bool:
    """What an error taught holds until somebody tests the model: it was seen, not said."""
    if row.context_window or not row.base_url or row.provider != ModelConfig.Provider.OPENAI:
        return False
    if row.window_source == ModelConfig.WindowSource.LEARNT:
        return False
    fresh = timedelta(hours=1) if row.window_found else timedelta(minutes=5)
    return row.window_at is None or timezone.now() - row.window_at > fresh


def ensure_default_models(environ: Mapping[str, str] = os.environ) -> list[ModelConfig]:
    """Make a row for each model that this installation can reach. Existing rows are an admin's: they stay."""
    rows = [_ensure(SCRIPTED, provider="scripted", model_id=DEFAULT_SCRIPT, pace=0.03)]
    if environ.get("ANTHROPIC_API_KEY"):
        rows.append(_ensure(CLAUDE, provider="anthropic", api_key_env="ANTHROPIC_API_KEY", **_claude(environ)))
    if environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_KEY"):
        base_url = environ.get("OPENAI_BASE_URL", "")
        found = _ensure(
            OPENAI,
            provider="openai",
            model_id=lambda: _openai_model(environ),  # asked for only when the row is made
            base_url=base_url,
            api_key_env="OPENAI_API_KEY",
        )
        rows.append(found)
    return rows


def _openai_model(environ: Mapping[str, str]) -> str:
    """The model that a person named, or the first that their server has: one of its own does not know ours."""
    if named := environ.get("AGENTOPS_OPENAI_MODEL"):
        return named
    key, url = environ.get("OPENAI_API_KEY", ""), environ.get("OPENAI_BASE_URL", "")
    listed = ask_models(config.ModelConfig(name=OPENAI, provider="openai", model_id="", base_url=url, api_key=key))
    talking = [name for name in listed if "embed" not in name.lower()]
    return DEFAULT_OPENAI if DEFAULT_OPENAI in listed or not talking else talking[0]


def ensure_script(script: str, *, pace: float = 0.03, fallback: str = "") -> ModelConfig:
    """A scripted model that plays the script of that name; one with a fallback is a model of its own."""
    name = f"demo-{script}{'-backed' if fallback else ''}".replace("_", "-")
    other = ensure_script(fallback, pace=pace) if fallback else None
    return _ensure(name, provider="scripted", model_id=script, pace=pace, fallback=other)


def offers(model: ModelConfig, role: ModelRole) -> bool:
    """Has the script of a scripted model an answer for ``role``?"""
    if model.provider != ModelConfig.Provider.SCRIPTED or model.model_id not in script_names():
        return False
    return role in find_script(model.model_id).answers


def preferred() -> ModelConfig:
    """The model a new agent gets: a real one when there is one."""
    by_name = {row.name: row for row in ModelConfig.objects.filter(name__in=[CLAUDE, OPENAI, SCRIPTED])}
    return by_name.get(CLAUDE) or by_name.get(OPENAI) or by_name.get(SCRIPTED) or ensure_default_models()[0]


def is_usable(row: ModelConfig, book: Book) -> bool:
    """May it be asked, as far as its key and its address go?"""
    return key_is_present(row) and not book.refusal(row)


def key_is_present(row: ModelConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """May the model be called as far as its key goes? A local server needs none."""
    return not row.api_key_env or keys.is_set(row.api_key_env, environ) or bool(row.base_url)


def _claude(environ: Mapping[str, str]) -> dict[str, Any]:
    """Our own choice thinks in any case; unless it is told so, it hides what it thinks (SPEC C2). What it thinks counts
    as a part of its answer, which has to have room for a whole file besides."""
    chosen = environ.get("AGENTOPS_ANTHROPIC_MODEL") or DEFAULT_CLAUDE
    more = {"thinking": "adaptive", "max_tokens": 32_768} if chosen == DEFAULT_CLAUDE else {"thinking": "off"}
    return {"model_id": chosen, "base_url": environ.get("ANTHROPIC_BASE_URL", ""), **more}


def _ensure(name: str, **fields: Any) -> ModelConfig:
    return ModelConfig.objects.get_or_create(name=name, defaults=fields)[0]


def config_of(
    row: ModelConfig, environ: Mapping[str, str] = os.environ, book: Book | None = None
) -> config.ModelConfig:
    """The row as adapters take it, with its key where it may be sent to the address of the row."""
    book = book or Book(environ)
    refused = book.refusal(row)
    masking.learn({row.api_key_env: environ.get(row.api_key_env, "").strip()})
    own = is_private(row.base_url)
    silence = OWN_SILENCE_S if own else SILENCE_S
    return config.ModelConfig(
        name=row.name,
        provider=cast(config.Provider, row.provider),
        model_id=row.model_id,
        base_url=row.base_url,
        api_key=environ.get(row.api_key_env, "") if row.api_key_env and not refused else "",
        refused=refused,
        inward=book.may_be_inward(row),
        max_tokens=row.max_tokens,
        thinking=row.thinking,
        xml_tools=row.xml_tools,
        input_price=row.input_usd_per_mtok,
        output_price=row.output_usd_per_mtok,
        cache_read_price=row.cache_read_usd_per_mtok,
        cache_write_price=row.cache_write_usd_per_mtok,
        timeout=float(row.timeout_s or silence),
        first_byte=float(row.first_byte_s or silence),
        at_once=row.calls_at_once or int(own),
        seat=origin(row.base_url) if own else f"model {row.name}",
        pace=row.pace,
        fallback=row.fallback.name if row.fallback else "",
    )
