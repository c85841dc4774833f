"""What is wrong with a run, judged from its row and the monitor's memory of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loops.engine.loop_detection.detectors import OUTSIDE, progress_stall
from loops.engine.loop_detection.finding import Finding
from loops.engine.state.limits import Limits
from loops.monitor.policy import Policy
from loops.monitor.queries import RunSeen
from loops.monitor.state import Memory

LOOP, STALL, SPEND = "loop", "stall", "spend"
SHORTEST_S = 0.1
"""No rate is measured over less."""


@dataclass(frozen=True, slots=True)
class Alert:
    """``kind`` is one of loop, stall and spend: the last one holds the run."""

    kind: str
    finding: Finding


def notice(run: RunSeen, memory: Memory, policy: Policy) -> Iterator[Alert]:
    """Everything that is wrong now, whether it was told before or not."""
    for look in LOOKS:
        if found := look(run, memory, policy):
            yield found


def _circles(run: RunSeen, memory: Memory, policy: Policy) -> Alert | None:
    """What the run has found by itself is no news. Words come first, for they are always there."""
    for detector in OUTSIDE:
        found = detector(memory.window, policy.thresholds)
        if found and max(found.steps) > memory.found_by_itself:
            return Alert(STALL if detector is progress_stall else LOOP, found)
    if memory.meant and max(memory.meant.steps) > memory.found_by_itself:
        return Alert(LOOP, memory.meant)
    return None


def _silence(run: RunSeen, memory: Memory, policy: Policy) -> Alert | None:
    if not run.owned:
        if run.idle_s < policy.untaken_s:
            return None
        return _stalled(run, "untaken", f"no worker has taken the run for {run.idle_s:.0f} s: is one running?")
    if run.lapsed_s is not None and run.lapsed_s > policy.lapsed_s:
        text = f"its worker went silent: the lease ran out {run.lapsed_s:.0f} s ago, and no other worker took the run"
        return _stalled(run, "hung_worker", text)
    if run.idle_s > (most := _longest_silence(run.status, memory.limits, policy)):
        text = f"its worker lives, but nothing was written for {run.idle_s:.0f} s, where {most:.0f} s are the most"
        return _stalled(run, "silent", text)
    return None


def _stalled(run: RunSeen, method: str, evidence: str) -> Alert:
    return Alert(STALL, Finding(method, evidence, (run.step,), 0.9))


def _longest_silence(status: str, limits: Limits, policy: Policy) -> float:
    match status:
        case "thinking":
            return min(policy.model_s, limits.max_seconds + policy.other_s)
        case "executing_tool":
            return policy.tool_s
        case "waiting_for_resource":
            return math.inf
        case _:
            return policy.other_s


def _spend(run: RunSeen, memory: Memory, policy: Policy) -> Alert | None:
    first = memory.samples[0] if memory.samples else None
    if first is None or run.now - first.at < max(policy.rate_over_s, SHORTEST_S):
        return None
    minutes = (run.now - first.at) / 60
    usd = (run.cost_microusd - first.cost_microusd) / 1e6 / minutes
    tokens = (run.tokens - first.tokens) / minutes
    text = _too_fast(run, memory.limits, policy, usd, tokens)
    return Alert(SPEND, Finding("runaway_spend", text, (run.step,), 0.9)) if text else None


def _too_fast(run: RunSeen, limits: Limits, policy: Policy, usd: float, tokens: float) -> str:
    if policy.usd_per_minute and usd > policy.usd_per_minute:
        return f"it spends ${usd:.2f} a minute, where ${policy.usd_per_minute:.2f} are allowed"
    if policy.tokens_per_minute and tokens > policy.tokens_per_minute:
        return f"it uses {tokens:,.0f} tokens a minute, where {policy.tokens_per_minute:,.0f} are allowed"
    budget = limits.max_cost_microusd / 1e6
    fair = budget / max(limits.max_seconds / 60, 1)
    if policy.pace and usd > policy.pace * fair and run.cost_microusd / 1e6 > policy.pace_from * budget:
        left = max(0.0, budget - run.cost_microusd / 1e6) / usd * 60
        return f"at ${usd:.2f} a minute its budget of ${budget:.2f} is gone in {left:.0f} s"
    return ""


Look = Callable[[RunSeen, Memory, Policy], Alert | None]
LOOKS: tuple[Look, ...] = (_circles, _silence, _spend)
