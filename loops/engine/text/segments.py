"""Words of a text in any script, by Unicode alone.

Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, whose words carry their
particles with them, are taken character by character.
"""

from __future__ import annotations

import math
import re

_ALPHABETS = "\u0e01-\u0e4e\u0e81-\u0edd\u1000-\u109f\u1780-\u17dd"  # Thai, Lao, Burmese, Khmer
_SYLLABLES = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"  # Hangul
)
_CLOSE = _ALPHABETS + _SYLLABLES
_LETTER, _SYLLABLE = re.compile(f"[{_ALPHABETS}]"), re.compile(f"[{_SYLLABLES}]")
_PIECE = re.compile(rf"[{_CLOSE}]|[^\W{_CLOSE}]+|[^\w\s]")
LETTERS_A_WORD, SYLLABLES_A_WORD = 5, 2
"""Characters that say about as much as a word elsewhere: of the alphabets, and of Chinese, Japanese and Korean."""


def pieces(text: str) -> list[str]:
    """Words, signs, and single characters of scripts that do not part their words."""
    return _PIECE.findall(text)


def words_in(text: str) -> int:
    """About how many words a text has, in any script."""
    rest, letters = _LETTER.subn(" ", text)
    rest, syllables = _SYLLABLE.subn(" ", rest)
    return len(rest.split()) + math.ceil(letters / LETTERS_A_WORD + syllables / SYLLABLES_A_WORD)
