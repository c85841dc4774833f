"""The Django admin: where thresholds, matrix, agents and models are tuned (SPEC S). History is shown, never changed."""

from loops.admin import breakers, folders, history, people, tuning

__all__ = ["breakers", "folders", "history", "people", "tuning"]
