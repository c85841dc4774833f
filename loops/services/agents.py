"""Agents as people set them up: who works, with which models and instructions (SPEC B1, S3)."""

from __future__ import annotations

from loops.agents import packages
from loops.engine import strategies
from loops.models import Agent
from loops.services.configuration import Kind


class Agents(Kind):
    model = Agent
    CHANGED, DELETED = "agent.changed", "agent.deleted"

    def faults(self, row: Agent) -> dict[str, str]:
        """A loop and a program are of those that are installed: their names lead to code."""
        found = {}
        if row.execution_loop not in (loops := strategies.names()):
            found["execution_loop"] = f"{row.execution_loop} is not one of {', '.join(loops)}."
        if row.program and row.program not in (programs := packages.names()):
            found["program"] = f"{row.program} is not one of {', '.join(programs) or 'none that are installed'}."
        return found


AGENTS = Agents()
