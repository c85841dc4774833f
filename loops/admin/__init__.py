"""The Django admin: where thresholds, matrix, agents and models are tuned (SPEC S). History is shown, never changed."""

from loops.admin import breakers, history, people, tuning

__all__ = ["breakers", "history", "people", "tuning"]
