"""What a reviewer should know of a result: found in what the run changed, without a model (SPEC Q3, L2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from loops.engine.values import Json


class Level(StrEnum):
    SUSPICIOUS = "suspicious"
    """It could make a check pass without the work: a person looks, whatever the checks say."""
    TO_KNOW = "to know"


@dataclass(frozen=True, slots=True)
class Remark:
    """``line`` is one of the file as the run left it; 0 where there is none."""

    code: str
    path: str
    text: str
    line: int = 0
    level: Level = Level.SUSPICIOUS


def plain(remarks: Iterable[Remark]) -> list[Json]:
    """For people and programs: every field, and the level in words."""
    return [
        {"code": one.code, "level": one.level.value, "path": one.path, "line": one.line, "text": one.text}
        for one in remarks
    ]


def is_suspicious(remarks: Iterable[Remark]) -> bool:
    return any(remark.level is Level.SUSPICIOUS for remark in remarks)
