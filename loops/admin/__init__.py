"""The Django admin: where thresholds, matrix, agents and models are tuned (SPEC S). History is shown, never changed."""

from loops.admin import breakers, configuration, history, people, workspaces

__all__ = ["breakers", "configuration", "history", "people", "workspaces"]
