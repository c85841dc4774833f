"""Does a message say that the person wants the run to stop? (SPEC D1: user intent to stop)

Conservative on purpose: only a short message that is nothing but such a wish counts. "Don't stop", "stop the server",
"stop when the tests pass" and anything longer is for the agent to read.
"""

from __future__ import annotations

import re

LONGEST = 80
_BEFORE = (
    r"(?:(?:please|pls|ok|okay|hey|hi|well|no|now|agent|wait|enough|sorry|all right|alright)\s+)*"  # words before it
)
_WISH = (
    r"(?:(?:can|could|would|will) you\s+(?:please\s+)?|you (?:can|should|must|may)\s+(?:please\s+)?"
    r"|i (?:want|need|would like) you to\s+|i'd like you to\s+|let's\s+|lets\s+|we (?:can|should)\s+)?"
)
_VERB = r"(?:stop|halt|abort|quit|cease|cancel|terminate)"
_WHAT = (
    r"(?:\s+(?:it|this|that|everything|working|running|the run|this run|the task|this task|the agent|yourself"
    r"|what you are doing|what you're doing))?"
)
_AFTER = (
    r"(?:\s+(?:please|pls|now|right now|right there|here|immediately|at once|asap|for now|for today|thanks"
    r"|thank you))*"
)
_STOP = re.compile(rf"{_BEFORE}{_WISH}{_VERB}{_WHAT}{_AFTER}")
_REPEATED = re.compile(rf"{_VERB}(?:\s+{_VERB})+{_AFTER}")
_IDIOMS = frozenset(
    {
        "/stop",
        "that's enough",
        "thats enough",
        "that is enough",
        "that's enough now",
        "enough now",
        "no more please",
        "do not continue",
        "don't continue",
        "dont continue",
        "please do not continue",
        "please don't continue",
        "do not go on",
        "don't go on",
        "please don't go on",
        "i want to stop",
        "i want to stop here",
        "i'd like to stop here",
        "we are done here",
        "we're done here",
    }
)
_SIGNS = re.compile(r"[.,;:!]+")


def wants_to_stop(text: str) -> bool:
    """True for a message that is a plain wish to stop and nothing else. A question about stopping is none, unless it
    asks the agent to ("can you stop?")."""
    if len(text) > LONGEST:
        return False
    words = " ".join(_SIGNS.sub(" ", text.lower().replace("\u2019", "'")).split())
    asks = words.endswith("?")
    words = words.rstrip("? ")
    if asks and not re.match(r"(?:(?:please|ok|okay|hey)\s+)*(?:can|could|would|will) you\b", words):
        return False
    return words in _IDIOMS or bool(_STOP.fullmatch(words) or _REPEATED.fullmatch(words))
