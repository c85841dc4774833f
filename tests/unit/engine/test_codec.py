"""Facts and states survive storage, and old stored data keeps loading (SPEC A3)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.state.run import RunState
from loops.engine.values import ModelReply, ModelRequest, ToolResult, ToolSpec
from tests.unit.engine import plain
from tests.unit.engine.effort import examples


def stored(kind: type[Any], value: Any) -> Any:
    return from_plain(kind, canonical.decode(canonical.encode(to_plain(value))))


@pytest.mark.spec("A3")
@pytest.mark.parametrize("name", sorted(f.KINDS))
@examples(usual=8, full=300)
@given(data=st.data())
def test_every_kind_of_fact_comes_back(name: str, data: st.DataObject) -> None:
    kind = f.KINDS[name]
    fact = data.draw(plain.of(kind))
    assert stored(kind, fact) == fact


@pytest.mark.spec("A3", "J2")
@pytest.mark.parametrize("kind", [RunState, ToolSpec, ToolResult, ModelReply, ModelRequest])
@examples(usual=10, full=300)
@given(data=st.data())
def test_every_value_comes_back(kind: type[Any], data: st.DataObject) -> None:
    value = data.draw(plain.of(kind))
    assert stored(kind, value) == value


@pytest.mark.spec("A3")
def test_every_fact_of_the_module_is_a_kind() -> None:
    classes = {
        name
        for name, found in vars(f).items()
        if isinstance(found, type) and issubclass(found, f.Fact) and found is not f.Fact
    }
    assert classes == set(f.KINDS)


@pytest.mark.spec("A3")
@pytest.mark.parametrize("name", sorted(f.KINDS))
def test_heavy_fields_exist(name: str) -> None:
    kind = f.KINDS[name]
    assert set(kind.HEAVY) <= {field.name for field in dataclasses.fields(kind)}


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Version1:
    name: str
    size: int


@dataclass(frozen=True)
class Version2:
    """What Version1 may become within a major version: fields are only added, each with a default."""

    name: str
    size: int
    colour: Colour = Colour.RED
    tags: frozenset[str] = frozenset()
    inner: Version1 | None = None


@pytest.mark.spec("A3")
def test_a_missing_new_field_takes_its_default() -> None:
    assert from_plain(Version2, to_plain(Version1("a", 1))) == Version2("a", 1)


@pytest.mark.spec("A3")
def test_an_unknown_field_is_dropped() -> None:
    newer = Version2("a", 1, Colour.RED, frozenset({"x"}), Version1("b", 2))
    assert from_plain(Version1, to_plain(newer)) == Version1("a", 1)


@pytest.mark.spec("A3")
def test_a_missing_required_field_is_named() -> None:
    with pytest.raises(KeyError, match="Version1 lacks name, size"):
        from_plain(Version1, {})
    with pytest.raises(KeyError, match="Version1 lacks size"):
        from_plain(Version2, {"name": "a", "size": 1, "inner": {"name": "b"}})


def test_fields_at_their_default_are_left_out() -> None:
    assert to_plain(Version2("a", 1)) == {"name": "a", "size": 1}
    assert to_plain(Version2("a", 1, tags=frozenset({"b", "a"})))["tags"] == ["a", "b"]


def test_an_unknown_word_is_an_error_and_no_guess() -> None:
    with pytest.raises(ValueError, match="blue"):
        from_plain(Version2, {"name": "a", "size": 1, "colour": "blue"})
