"""Strategies for the engine's values, made from their annotations."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.values import Json

TEXT = st.text(max_size=5)
NUMBERS = st.integers(-(2**60), 2**60)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
_BASIC: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: NUMBERS,
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
    Json: VALUES,
}


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation; mappings hold JSON, because that is what they hold everywhere."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _BASIC:
        return _BASIC[hint]
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        fields = {field.name: of(hints[field.name]) for field in dataclasses.fields(hint)}
        return st.builds(hint, **fields)  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if origin is tuple:
        return st.lists(of(args[0]), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(of(args[0]), max_size=2)
    if origin in (Union, types.UnionType):
        return st.one_of(*(of(arg) for arg in args))
    return st.dictionaries(TEXT, VALUES, max_size=2)


facts: st.SearchStrategy[f.Fact] = st.sampled_from(sorted(f.KINDS)).flatmap(lambda name: of(f.KINDS[name]))
