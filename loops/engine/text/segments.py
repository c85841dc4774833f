"""Words of a text in any script, by Unicode alone.

Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, whose words carry their
particles with them, are taken character by character: a pair of them is about what a word is elsewhere.
"""

from __future__ import annotations

import re

_CLOSE = (
    "\u0e01-\u0e4e\u0e81-\u0edd\u1000-\u109f\u1780-\u17dd"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"  # Hangul
)
_CLOSE_ONE = re.compile(f"[{_CLOSE}]")
_PIECE = re.compile(rf"[{_CLOSE}]|[^\W{_CLOSE}]+|[^\w\s]")
CHARACTERS_A_WORD = 2


def pieces(text: str) -> list[str]:
    """Words, signs, and single characters of scripts that do not part their words."""
    return _PIECE.findall(text)


def words_in(text: str) -> int:
    """About how many words a text has, in any script."""
    close = len(_CLOSE_ONE.findall(text))
    return len(_CLOSE_ONE.sub(" ", text).split()) + -(-close // CHARACTERS_A_WORD)
