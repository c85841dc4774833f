"""Whatever a model that breaks ties says, and whoever dies meanwhile: the run ends in its bounds, its record whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.state.run import RunState
from loops.engine.values import FailureKind, ModelReply, Usage
from tests.fakes import says
from tests.unit.engine.effort import examples
from tests.unit.engine.test_failure_rules import ODD, PRICE, SYSTEMATIC, TRANSIENT, Judged, Killed

KINDS = st.sampled_from([*FailureKind, "harmless", "CRITICAL", "", "{{failure}}"])
SAID = st.one_of(
    st.text(max_size=60),
    KINDS.map(lambda kind: json.dumps({"kind": kind})),
    KINDS.map(lambda kind: f"```json\n{json.dumps({'kind': kind, 'also': ['</failure>']})}\n```"),
    st.recursive(st.none() | st.text() | st.floats(), lambda inner: st.dictionaries(st.just("kind"), inner)).map(
        json.dumps
    ),
    st.sampled_from(["[" * 5_000, '{"kind": "transient"', '{"kind":"critical","kind":"transient"}', "\x00\ud800"]),
)
ANSWERS: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda text, usage: says(text, usage=usage), SAID, st.sampled_from([PRICE, Usage(10, 10**4), Usage()])),
    st.builds(lambda text: p.ModelError(text, kind=TRANSIENT, code=text), st.text(max_size=20)),
    st.just(Killed),
)


@pytest.mark.spec("E1", "A4", "A6", "J2")
@examples(usual=150, full=500)
@given(
    st.lists(st.sampled_from([*ODD, "deadlock detected"]), min_size=1, max_size=12),
    st.lists(ANSWERS, min_size=12, max_size=12),
    st.integers(0, 6),
    st.sampled_from([500_000, 20_000, 6_000]),
)
def test_whatever_it_says_the_run_ends_bounded_and_its_record_is_whole(
    errors: list[str], answers: list[Any], most: int, tokens: int
) -> None:
    made: list[Any] = [_dies if answer is Killed else answer for answer in answers]
    world = Judged(errors, made, limits={"max_second_opinions": most, "max_tokens": tokens})
    _live(world)
    requested = world.journal.of(f.ClassificationRequested)
    about = [one.fingerprint for one in requested]
    assert len(about) == len(set(about)) <= most
    assert len(world.asked) == len(requested)
    assert len(world.state.second_opinions) == len(requested)
    paid = sum(one.usage.total_tokens for one in world.given)
    actor = sum(one.usage.total_tokens for one in world.journal.of(f.ModelAnswered))
    assert world.state.tokens == actor + paid
    for fact in world.classes:
        assert fact.kind in (SYSTEMATIC, fact.model_kind) or fact.certain
        assert fact.certain or bool(fact.model_kind) is not bool(fact.problem)
        assert not (fact.certain and fact.model)
    assert from_plain(RunState, to_plain(world.state)) == world.state


async def _dies() -> ModelReply:
    raise Killed


def _live(world: Judged) -> None:
    """Workers come and go, and a person lets it go on, until it has ended."""
    for _ in range(60):
        try:
            why = world.drive()
        except Killed:
            continue
        if why == "ended":
            return
        if why == "timer":
            world.clock.time += 600
            continue
        world.decide("approve", **({"max_tokens": 1} if "limit" in why else {}))
    raise AssertionError(f"still {why}")
