"""The detectors: each looks at a window for one kind of circle and says what it saw (SPEC F1-F3).

All of them are pure, and all judge the newest step: a circle that was left again is none. A threshold of 0 switches its
detector off.
"""

from __future__ import annotations

from collections.abc import Callable

from loops.engine.encoding.fingerprints import exact_part, says_something, similarity
from loops.engine.loop_detection.finding import Finding
from loops.engine.state.step_window import Seen, Window, since_news
from loops.engine.state.thresholds import THRESHOLDS, Thresholds


def repeated_result(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """The newest step met the error of the steps right before it, or learnt word for word what others had told."""
    often = thresholds.repeated_result
    if not often or not window:
        return None
    last = window[-often:]
    if len(last) == often and last[-1].error and len({seen.error for seen in last}) == 1:
        return Finding("repeated_result", f"the same error ended {often} steps in a row", _steps(last), 0.8)
    same = _with_the_result_of_the_newest(window, thresholds)
    if len(same) < often:
        return None
    return Finding("repeated_result", f"{len(same)} steps returned the same result", _steps(same), 0.8)


def semantic(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """The last steps did nearly the same and learnt nearly the same (CH15 15.9.3), and nothing was changed by them."""
    in_row = thresholds.similar_steps
    last = window[-in_row:] if in_row else ()
    if not last or len(last) < in_row or any(seen.changed for seen in last) or last[-1].progress > last[0].progress:
        return None
    actions = outcomes = 1.0
    for seen in reversed(last[:-1]):
        action, outcome = _alike(seen, last[-1])
        if action < thresholds.similar_action or outcome < thresholds.similar_outcome:
            return None
        actions, outcomes = min(actions, action), min(outcomes, outcome)
    evidence = (
        f"the last {in_row} steps are alike: {actions:.0%} of word pairs in what they did, "
        f"{outcomes:.0%} in what they got"
    )
    return Finding("semantic", evidence, _steps(last), round(min(actions, outcomes), 2))


def repeated_round(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """A result like an earlier one was handed in and got the same diagnosis (CH15 15.9.3)."""
    many, rounds = thresholds.similar_rounds, [seen for seen in window if seen.is_round]
    if not many or not rounds or not window[-1].is_round:
        return None
    same = [seen for seen in rounds if _nearly_the_same(seen, rounds[-1], thresholds)]
    if len(same) < many:
        return None
    return Finding("repeated_round", f"{len(same)} results are alike and failed in the same way", _steps(same), 0.8)


def progress_stall(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """Progress was measured, and for many steps there was none."""
    many = thresholds.stalled_steps
    last = window[-many - 1 :]
    if not many or len(last) <= many or not all(seen.measured for seen in last):
        return None
    if max(seen.progress for seen in last[1:]) > last[0].progress:
        return None
    return Finding("progress_stall", f"no progress in {many} steps", _steps(last[1:]), 0.6)


Detector = Callable[[Window, Thresholds], Finding | None]
INSIDE: tuple[Detector, ...] = (repeated_result, semantic, repeated_round)
"""What the run itself is asked before every request, from the surest to the vaguest (SPEC F1)."""
OUTSIDE: tuple[Detector, ...] = (semantic, progress_stall)
"""What the monitor asks (SPEC F2)."""
DETECTORS: tuple[Detector, ...] = (*INSIDE, progress_stall)


def detect(
    window: Window, thresholds: Thresholds = THRESHOLDS, detectors: tuple[Detector, ...] = DETECTORS
) -> Finding | None:
    """What the first detector that speaks up has found."""
    return next((found for detector in detectors if (found := detector(window, thresholds))), None)


def _with_the_result_of_the_newest(window: Window, thresholds: Thresholds) -> list[Seen]:
    """Since the latest change, whatever was asked. Silence is the same for like calls only: much that goes well says
    nothing."""
    newest = window[-1]
    if newest.changed or not newest.outcome:
        return []
    result = exact_part(newest.outcome)
    same = [seen for seen in since_news(window) if exact_part(seen.outcome) == result]
    if says_something(newest.outcome):
        return same
    return [seen for seen in same if similarity(seen.action, newest.action) >= thresholds.similar_action]


def _nearly_the_same(one: Seen, other: Seen, thresholds: Thresholds) -> bool:
    action, outcome = _alike(one, other)
    return action >= thresholds.similar_action and outcome >= thresholds.similar_outcome


def _alike(one: Seen, other: Seen) -> tuple[float, float]:
    return similarity(one.action, other.action), similarity(one.outcome, other.outcome)


def _steps(seen: Window | list[Seen]) -> tuple[int, ...]:
    return tuple(each.step for each in seen)
