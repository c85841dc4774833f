"""Real runs of coding agents, said again through the loop: without loop detection, and with it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from loops.engine import facts as f
from loops.engine.state.lifecycle import Phase
from loops.llm.replay import load_recordings
from tests.integration.replay.test_airline import EXTRACT, LIMITS, WHOLE, Customer, check_calls, replayed

FILES = {"swe-agent": ((2, 27), (21, 227)), "intercode": ((40, 211), (842, 2790))}
"""Runs and calls of the extract, and of the whole set."""
HERE, THERE = EXTRACT.parent, WHOLE.parent


def with_detection(path: Path) -> Counter[str]:
    figures: Counter[str] = Counter()
    for recording in load_recordings(path):
        world = Customer(recording, LIMITS)
        world.serve()
        refused = check_calls(world)
        assert world.state.phase is Phase.COMMIT
        broken = [fact for fact in world.journal.of(f.LoopBroken) if not fact.skipped]
        found = world.journal.of(f.LoopDetected)
        figures += Counter(runs=1, refused=refused, broken=len(broken), found=len(found))
        figures += Counter(fact.method for fact in found)
    return figures


def shown(figures: Counter[str]) -> str:
    return ", ".join(f"{what} {number:,}" for what, number in sorted(figures.items()))


@pytest.mark.spec("B2", "C4", "C5")
@pytest.mark.parametrize("name", FILES)
def test_an_extract_replays_call_by_call(name: str) -> None:
    figures = replayed(list(load_recordings(HERE / f"{name}.jsonl.gz")))
    print("\n" + shown(figures))
    assert (figures["runs"], figures["calls"]) == FILES[name][0]


@pytest.mark.spec("B2", "C4", "C5")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.skipif(not THERE.exists(), reason="the whole set of recordings is not here")
def test_all_runs_replay_call_by_call(name: str) -> None:
    figures = replayed(list(load_recordings(THERE / f"{name}.jsonl.gz")))
    print("\n" + shown(figures))
    assert (figures["runs"], figures["calls"]) == FILES[name][1]


@pytest.mark.spec("F1", "F3")
@pytest.mark.parametrize("name", FILES)
def test_with_detection_every_call_runs_or_is_refused_by_name(name: str) -> None:
    figures = with_detection(HERE / f"{name}.jsonl.gz")
    print("\n" + shown(figures))
    assert figures["runs"] == FILES[name][0][0]
