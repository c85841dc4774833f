"""The system prompt of a run: the template of its loop, with the agent's own instructions in it (SPEC B6)."""

from __future__ import annotations

from loops.engine.spec import RunSpec
from loops.llm import prompts


def system_prompt(spec: RunSpec) -> tuple[str, str]:
    """(the text, the name and version of the template it was made from)."""
    prompt = prompts.load(spec.loop)
    values = {"agent_name": spec.agent.name, "instructions": spec.agent.instructions or "None."}
    text = prompt.fill(**{name: values[name] for name in prompt.places})
    return text, f"{prompt.name}:{prompt.version_hash}"
