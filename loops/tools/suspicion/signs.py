"""A sign of one file: what was found in it before or after, so that only what is new of it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loops.engine.state.remark import Level, Remark


@dataclass(frozen=True, slots=True)
class Sign:
    """``key`` says what it is: signs with the same key are the same, wherever they stand."""

    code: str
    key: str
    text: str
    line: int = 0
    level: Level = Level.SUSPICIOUS


def new_of(files: Sequence[tuple[str, Iterable[Sign], Iterable[Sign]]]) -> list[Remark]:
    """Of (path, signs before, signs after) what there is more of than before, over all files: a file that was moved, or
    split, has nothing new in it."""
    before, found = Counter[str](), list[tuple[str, Counter[str], list[Sign]]]()
    total = Counter[str]()
    for path, old, new in files:
        old_keys, signs = Counter(sign.key for sign in old), sorted(new, key=lambda sign: sign.line)
        before += old_keys
        total += Counter(sign.key for sign in signs)
        found.append((path, old_keys, signs))
    more = total - before
    remarks = []
    for path, old_keys, signs in found:
        left = old_keys.copy()
        for sign in signs:
            if left[sign.key] > 0:
                left[sign.key] -= 1
            elif more[sign.key] > 0:
                more[sign.key] -= 1
                remarks.append(Remark(sign.code, path, sign.text, sign.line, sign.level))
    return remarks
