"""A conversation as a value: it grows at a constant price, and nobody's version changes under them (SPEC J7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.context_window.messages import Messages, Turn, Turns, message_of, size_of
from tests.unit.engine.effort import examples


def turn(text: str) -> Turn:
    message = message_of("user", [{"type": "text", "text": text}])
    return Turn(message, size_of(message))


STEPS = st.lists(st.tuples(st.sampled_from(["add", "last", "branch"]), st.integers(0, 99)), max_size=40)


@pytest.mark.spec("J7", "K3")
@examples(usual=200, full=2000)
@given(STEPS)
def test_every_version_stays_what_it_was(steps: list[tuple[str, int]]) -> None:
    """Against plain tuples; a branch goes on from an older version, as a fork does."""
    versions: list[tuple[Turns, tuple[Turn, ...]]] = [(Turns(), ())]
    for what, number in steps:
        grown, plain = versions[number % len(versions)] if what == "branch" else versions[-1]
        fresh = turn(f"{len(versions)}-{number}")
        if what == "last" and plain:
            versions.append((grown.with_last(fresh), (*plain[:-1], fresh)))
        else:
            versions.append((grown.added(fresh), (*plain, fresh)))
    for grown, plain in versions:
        assert tuple(grown) == plain
        assert len(grown) == len(plain)
        assert [grown[at] for at in range(-len(plain), len(plain))] == [*plain, *plain]
        assert grown[1:-1] == plain[1:-1]
        assert grown.size == sum(each.size for each in plain)
        assert grown == Turns(plain)
        assert Messages(grown) == tuple(each.message for each in plain)


@pytest.mark.spec("J7")
def test_growing_shares_what_was_said() -> None:
    """The control: a version that somebody else went on from gets a list of its own."""
    base: Any = Turns([turn("a"), turn("b")])
    one, other = base.added(turn("c")), base.added(turn("d"))
    assert one._shared is base._shared
    assert other._shared is not base._shared
    assert [each.message for each in other][:2] == [each.message for each in base]


def test_it_is_read_like_a_tuple() -> None:
    turns = Turns([turn("a"), turn("b")])
    with pytest.raises(IndexError):
        turns[2]
    assert Messages(turns)[-1] == turn("b").message
    assert repr(Messages(turns)) == repr((turn("a").message, turn("b").message))
    assert turns != (turn("a"), turn("b"))
