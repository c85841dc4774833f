"""A money limit and a model without a price: the limit would bind nothing, so a person says that it may (SPEC D2, X7).

One rule for every door: the page, the API, the command line and forks. It asks where a person set the limit; the limits
of the complexity profile are shown with "no price known" instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loops.llm import prices
from loops.models import Agent, ModelConfig
from loops.services.models import model_configs
from loops.services.submission import InvalidTask

MONEY, CONFIRMED = "max_cost_microusd", "allow_unknown_cost"


def require_prices(limits: Mapping[str, Any], models: Iterable[ModelConfig]) -> None:
    """Raises InvalidTask where a money limit is set, a model that may be asked has no price, and nobody confirmed."""
    if MONEY in limits and not limits.get(CONFIRMED) and (names := unpriced(models)):
        raise InvalidTask({f"limits.{MONEY}": said(names)})


def said(names: Iterable[str]) -> str:
    """In words for people."""
    return (
        f"cannot be capped: no price is known of {', '.join(names)}. Give its prices in Admin, leave this limit empty, "
        f"or confirm it ({CONFIRMED} = 1)"
    )


def unpriced(models: Iterable[ModelConfig]) -> list[str]:
    """Names of the models, and of those asked instead of them, of whose calls nobody knows the price."""
    wanted = {model.name for first in models for model in first.chain()}
    return sorted(name for name, config in model_configs().items() if name in wanted and not prices.is_known(config))


def models_of(agent: Agent) -> list[ModelConfig]:
    """Every model that the agent may ask, in any role."""
    roles = (agent.planner_model, agent.critic_model, agent.confidence_model, agent.summariser_model)
    return [model for model in (agent.actor_model, *roles, agent.classifier_model) if model is not None]
