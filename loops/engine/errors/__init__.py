"""Classes of failure and what follows from them (SPEC E1): rules first, a model only where no rule is sure."""

from loops.engine.errors.asking import fingerprint, is_open, parse_answer, question, settle
from loops.engine.errors.classify import classify
from loops.engine.errors.failure import Classified, Failure, Recovery, SecondOpinion, Source, of_result
from loops.engine.errors.recovery import decide_recovery

__all__ = [
    "Classified",
    "Failure",
    "Recovery",
    "SecondOpinion",
    "Source",
    "classify",
    "decide_recovery",
    "fingerprint",
    "is_open",
    "of_result",
    "parse_answer",
    "question",
    "settle",
]
