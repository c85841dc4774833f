"""Does an agent say that it is uncertain? (SPEC G2)"""

from __future__ import annotations

import re
from functools import lru_cache

_DOUBT = re.compile(
    r"""
    \b(?:i\s+am|i['\u2019]m)\s+(?:really\s+|still\s+|quite\s+|completely\s+|totally\s+|honestly\s+)?(?:
        (?:not|no\s+longer)\s+(?:at\s+all\s+|really\s+|entirely\s+|completely\s+|very\s+|too\s+)?
        (?:sure|certain|confident)\b
        | unsure\b | uncertain\b | stuck\b | at\s+a\s+loss\b | guessing\b | lost\b(?=\s*[.,;!]|\s*$)
        | confused\b(?:\s+(?:by|about))? | out\s+of\s+ideas\b | running\s+out\s+of\s+ideas\b
    )
    | \bi\s+(?:really\s+|honestly\s+|still\s+)?(?:do\s+not|don['\u2019]t)\s+(?:really\s+)?know\s+
      (?:how|why|what|whether|if|where|which)\b
    | \bi\s+(?:can\s*not|can['\u2019]t)\s+(?:tell|say)\s+(?:whether|if|why|which)\b
    | \bi\s+have\s+no\s+(?:idea|clue)\b
    | \bi\s+doubt\s+(?:that\s+)?(?:this|it|my)\b
    | \bmy\s+confidence\s+(?:here\s+|in\s+this\s+)?is\s+(?:low|very\s+low)\b
    | ^\s*(?:not\s+sure|unsure|uncertain)\s+(?:how|why|what|whether|if|that|about|which)\b
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_SET_APART = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*$|\"[^\"\n]*\"|\u201c[^\u201c\u201d\n]*\u201d", re.DOTALL | re.MULTILINE
)
_SUPPOSED = re.compile(r"\b(?:if|when|whenever|unless|until|in\s+case|before|where|so\s+that)\s*$", re.IGNORECASE)
_READ_AT_MOST = 2_000


@lru_cache(maxsize=64)  # ``decide`` asks several times in a step
def doubt(text: str) -> str:
    """The words in which an agent says that it is uncertain; "" when it does not.

    Cautious on purpose: only the first person, the present, and nothing that is quoted, code or a mere supposition.
    A missed doubt costs nothing, because the check comes every few steps anyway.
    """
    own = _SET_APART.sub(" ", text[-_READ_AT_MOST:])
    for found in _DOUBT.finditer(own):
        if not _SUPPOSED.search(own[max(0, found.start() - 20) : found.start()]):
            return " ".join(found.group().split())
    return ""
