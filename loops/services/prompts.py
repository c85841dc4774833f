"""The prompts of a run: templates from files with a run's own words in them, and their versions (SPEC B6, U3)."""

from __future__ import annotations

from loops.engine import prompts as engine_prompts
from loops.engine import strategies
from loops.engine.measures.context_budget import is_small
from loops.engine.state.spec import RunSpec
from loops.llm import prompts

SUMMARY_WORDS = 400


def system_prompt(spec: RunSpec, *, small: bool = False) -> tuple[str, str]:
    """(the text, the name and version of the template it was made from); the short form, where the loop has one, for
    a ``small`` window, also for one that is known to be from the beginning. Raises UnknownLoop."""
    short, window = f"{spec.loop}_small", spec.windows.get(spec.model_for("actor"), 0)
    shipped = short if (small or is_small(window)) and short in prompt_names() else spec.loop
    prompt = strategies.prompt(spec.loop) or prompts.load(shipped)
    values = {"agent_name": spec.agent.name, "instructions": spec.agent.instructions or "None."}
    text = prompt.fill(**{name: values[name] for name in prompt.places})
    return text, prompt.version


def short_prompt(spec: RunSpec) -> tuple[str, str]:
    """What a run with a small window is asked with."""
    return system_prompt(spec, small=True)


def summary_prompt(goal: str) -> tuple[str, str]:
    """How a model is asked to sum up work on ``goal``, and the version of the template."""
    prompt = prompts.load("summarise")
    return prompt.fill(goal=goal, words=SUMMARY_WORDS), prompt.version


def classifier_prompt() -> tuple[str, str]:
    """How a model is asked for the class of a failure, and the version of the template."""
    prompt = prompts.load("classify")
    return prompt.text, prompt.version


def prompt_names() -> frozenset[str]:
    """The templates that models are asked with; the others are what the loop says to them meanwhile."""
    return frozenset(prompts.PROMPTS.templates)


def prompt_versions() -> dict[str, str]:
    """Name -> SHA-256 of every template, as they stand now: what a run that begins now will be asked with and told."""
    return prompts.PROMPTS.versions() | engine_prompts.TODAY.versions()
