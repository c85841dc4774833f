"""The lifecycle as a drawing: boxes at fixed places, arrows from the one transition table (SPEC A1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loops.engine.state.lifecycle import LABELS, TABLE, TERMINAL, Phase

WIDTH, HEIGHT = 960, 330
BOX_W, BOX_H = 124, 46
_PLACES = {
    Phase.PLAN: (20, 60),
    Phase.DECOMPOSE: (178, 60),
    Phase.RETRIEVE: (336, 60),
    Phase.ACT: (494, 60),
    Phase.VERIFY: (652, 60),
    Phase.COMMIT: (816, 60),
    Phase.CRITIQUE: (732, 162),
    Phase.REPAIR: (572, 162),
    Phase.FAIL: (336, 264),
    Phase.HALT: (178, 264),
}


@dataclass(frozen=True, slots=True)
class Box:
    phase: str
    label: str
    x: int
    y: int
    look: str
    times: int

    @property
    def cx(self) -> int:
        return self.x + BOX_W // 2

    @property
    def said(self) -> str:
        passed = {"now": "now", "passed": "passed", "ahead": "not reached"}[self.look]
        return f"{self.label}: {passed}" + (f", {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True)
class Arrow:
    path: str
    events: str
    ends: bool
    """An arrow to FAIL or HALT, which every phase has: drawn faint."""


@dataclass(frozen=True, slots=True)
class Drawing:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: int = WIDTH
    height: int = HEIGHT
    box_w: int = BOX_W
    box_h: int = BOX_H

    @property
    def said(self) -> str:
        return "; ".join(box.said for box in self.boxes)


def draw(present: str, entered: Sequence[str]) -> Drawing:
    """Boxes with their look and the arrows of the table, merged by their two ends."""
    boxes = tuple(_box(phase, present, entered) for phase in Phase)
    merged: dict[tuple[Phase, Phase], list[str]] = {}
    for (source, event), target in TABLE.items():
        merged.setdefault((source, target), []).append(event.value.replace("_", " "))
    arrows = tuple(
        Arrow(_path(source, target), f"{source} → {target}: {', '.join(events)}", target in (Phase.FAIL, Phase.HALT))
        for (source, target), events in merged.items()
    )
    return Drawing(boxes, arrows)


def _box(phase: Phase, present: str, entered: Sequence[str]) -> Box:
    times = entered.count(phase) + (phase is Phase.PLAN)  # a run begins in PLAN without entering it
    look = "now" if phase == present else "passed" if times else "ahead"
    return Box(phase.value, LABELS[phase], *_PLACES[phase], look, times)


def _path(source: Phase, target: Phase) -> str:
    (sx, sy), (tx, ty) = _PLACES[source], _PLACES[target]
    middle = BOX_W // 2
    if target in TERMINAL and target is not Phase.COMMIT:
        return f"M{sx + middle} {sy + BOX_H} C{sx + middle} {sy + 150}, {tx + middle} {ty - 60}, {tx + middle} {ty - 3}"
    if sy == ty and tx > sx:
        return f"M{sx + BOX_W} {sy + BOX_H // 2} H{tx - 3}"
    if sy == ty and sy > 100:  # back along the lower row
        return f"M{sx} {sy + BOX_H // 2} H{tx + BOX_W + 3}"
    if sy == ty:  # back over the top: replan
        return f"M{sx + middle} {sy} C{sx + middle} {sy - 52}, {tx + middle} {ty - 52}, {tx + middle} {ty - 3}"
    up = ty < sy
    start, end = (sy, ty + BOX_H + 3) if up else (sy + BOX_H, ty - 3)
    half = (start + end) // 2
    return f"M{sx + middle} {start} C{sx + middle} {half}, {tx + middle} {half}, {tx + middle} {end}"
