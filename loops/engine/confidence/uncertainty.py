"""Does an agent say that it is uncertain? (SPEC G2)"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

from loops.engine.languages.uncertainty import DOUBTING, Hedges

_DOUBT = r"""
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
"""
_SET_APART = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*$|\"[^\"\n]*\"|\u201c[^\u201c\u201d\n]*\u201d"
    r"|\u201e[^\u201c\u201d\n]*[\u201c\u201d]|«[^»\n]*»|「[^」\n]*」|『[^』\n]*』",
    re.DOTALL | re.MULTILINE,
)
_SUPPOSED = r"\b(?:if|when|whenever|unless|until|in\s+case|before|where|so\s+that)\s*$"
_READ_AT_MOST = 2_000
_FOLLOWED = 8


@dataclass(frozen=True, slots=True)
class _Reader:
    doubt: re.Pattern[str]
    supposed: re.Pattern[str] | None
    supposed_after: re.Pattern[str] | None = None

    def finds(self, text: str) -> str:
        for found in self.doubt.finditer(text):
            before = self.supposed and self.supposed.search(text[max(0, found.start() - 20) : found.start()])
            after = self.supposed_after and self.supposed_after.match(text[found.end() : found.end() + _FOLLOWED])
            if not before and not after:
                return " ".join(found.group().split())
        return ""


def _reader(words: Hedges) -> _Reader:
    flags = re.IGNORECASE | re.MULTILINE
    return _Reader(
        re.compile(words.doubt, flags),
        re.compile(rf"(?:^|\W|(?<=[\u3400-\u9fff])){words.supposed}\s*$", flags) if words.supposed else None,
        re.compile(words.supposed_after, flags) if words.supposed_after else None,
    )


@cache
def _readers() -> tuple[_Reader, ...]:
    """Compiled where a step is judged: every other process starts without them."""
    flags = re.IGNORECASE | re.MULTILINE
    english = _Reader(re.compile(_DOUBT, flags | re.VERBOSE), re.compile(_SUPPOSED, flags))
    return (english, *map(_reader, DOUBTING.values()))


@lru_cache(maxsize=64)  # ``decide`` asks several times in a step
def doubt(text: str) -> str:
    """The words in which an agent says that it is uncertain, in any of LANGUAGES; "" when it does not.

    Cautious on purpose: only the first person, the present, and nothing that is quoted, code or a mere supposition.
    A missed doubt costs nothing, because the check comes every few steps anyway. An agent that writes in another
    language has a word of its own for it: ``unsure`` of the tools that end a step.
    """
    own = _SET_APART.sub(" ", unicodedata.normalize("NFC", text[-_READ_AT_MOST:]))
    return next((words for reader in _readers() if (words := reader.finds(own))), "")
