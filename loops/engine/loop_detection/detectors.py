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


def identical_errors(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """The last steps ended with one and the same error."""
    in_row = thresholds.identical_errors
    last = window[-in_row:] if in_row else ()
    if not last or len(last) < in_row or not last[-1].error or len({seen.error for seen in last}) > 1:
        return None
    return Finding("identical_errors", f"the same error ended {in_row} steps in a row", _steps(last), 0.8)


def repeated_call(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """The newest step asked for what was asked before, and learnt what was known already."""
    often = thresholds.repeated_call
    if not often or not window or not window[-1].call:
        return None
    same = [seen for seen in since_news(window) if seen.call == window[-1].call]
    if len(same) < often:
        return None
    return Finding("repeated_call", f"the same call gave the same result {len(same)} times", _steps(same), 0.9)


def repeated_result(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """The newest step learnt what others had told already, word for word, whatever was asked. A result without a word
    tells nothing: many things that go well say none."""
    often = thresholds.repeated_result
    if not often or not window or window[-1].changed or not says_something(window[-1].outcome):
        return None
    result = exact_part(window[-1].outcome)
    same = [seen for seen in since_news(window) if exact_part(seen.outcome) == result]
    if len(same) < often:
        return None
    evidence = f"{len(same)} steps got exactly the same result, whatever they asked"
    return Finding("repeated_result", evidence, _steps(same), 0.8)


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
        f"{in_row} steps in a row did nearly the same ({actions:.0%} of word pairs) "
        f"and learnt nearly the same ({outcomes:.0%})"
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
    return Finding("repeated_round", f"{len(same)} results were nearly the same and failed alike", _steps(same), 0.8)


def recurring(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """The newest step was nearly done, and nearly learnt, several times before, whatever came between."""
    often, steps = thresholds.recurring_steps, since_news(window)
    if not often or not steps or steps[-1].changed:
        return None
    same = [seen for seen in steps if _nearly_the_same(seen, steps[-1], thresholds)]
    if len(same) < often:
        return None
    evidence = f"{len(same)} of the last {len(steps)} steps were nearly the same by their word pairs"
    return Finding("recurring", evidence, _steps(same), 0.7)


def nothing_new(window: Window, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    """Every one of the last steps learnt exactly what a step much like it had told before, in whatever order."""
    in_row, steps = thresholds.known_results, since_news(window)
    if not in_row or len(steps) <= in_row or steps[-1].changed:
        return None
    told = [_told_before(steps[:position], steps[position], thresholds) for position in range(-in_row, 0)]
    if not all(told):
        return None
    earlier = [seen.step for seen in told if seen]
    evidence = f"the last {in_row} steps learnt only what the steps {', '.join(map(str, earlier))} had told already"
    last = [seen.step for seen in steps[-in_row:]]
    return Finding("nothing_new", evidence, tuple(sorted({*earlier, *last})), 0.7)


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
INSIDE: tuple[Detector, ...] = (identical_errors, repeated_call, repeated_result, semantic, repeated_round)
"""What the run itself is asked before every request, from the surest to the vaguest (SPEC F1)."""
OUTSIDE: tuple[Detector, ...] = (semantic, recurring, nothing_new, progress_stall)
"""What the monitor asks (SPEC F2)."""
DETECTORS: tuple[Detector, ...] = (*INSIDE, recurring, nothing_new, progress_stall)


def detect(
    window: Window, thresholds: Thresholds = THRESHOLDS, detectors: tuple[Detector, ...] = DETECTORS
) -> Finding | None:
    """What the first detector that speaks up has found."""
    return next((found for detector in detectors if (found := detector(window, thresholds))), None)


def _told_before(earlier: Window, step: Seen, thresholds: Thresholds) -> Seen | None:
    """The latest of ``earlier`` that did nearly what ``step`` did, with the very same result."""
    known = (
        seen for seen in reversed(earlier) if seen.outcome and exact_part(seen.outcome) == exact_part(step.outcome)
    )
    return next((seen for seen in known if similarity(seen.action, step.action) >= thresholds.similar_action), None)


def _nearly_the_same(one: Seen, other: Seen, thresholds: Thresholds) -> bool:
    action, outcome = _alike(one, other)
    return action >= thresholds.similar_action and outcome >= thresholds.similar_outcome


def _alike(one: Seen, other: Seen) -> tuple[float, float]:
    return similarity(one.action, other.action), similarity(one.outcome, other.outcome)


def _steps(seen: Window | list[Seen]) -> tuple[int, ...]:
    return tuple(each.step for each in seen)
