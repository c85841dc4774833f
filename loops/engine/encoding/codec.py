"""Frozen dataclasses to plain JSON values and back, driven by their annotations (SPEC A3).

Reading is tolerant where the contract allows growth: unknown fields are dropped, missing ones take their default.
A field without a default that is missing is an error: the stored data is older than any version we can read.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Convert = Callable[[Any], Any]
_AS_IT_IS = frozenset({str, int, bool, float, type(None)})


def to_plain(value: Any) -> Any:
    """Dataclasses become dicts (fields at their default left out), enums their value, tuples and sets lists.

    A dict is JSON already, and given back as it is.
    """
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        return value
    if _is_dataclass(cast(type, kind)):
        return _plain_dataclass(value, kind)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(to_plain(item) for item in value)
    return value


def _plain_dataclass(value: Any, kind: type) -> dict[str, Any]:
    plain = {}
    for name, default in _defaults(kind):
        item = getattr(value, name)
        if item is default or item == default:
            continue
        plain[name] = item if type(item) in _AS_IT_IS else to_plain(item)
    return plain


def from_plain(kind: type[T], plain: Mapping[str, Any]) -> T:
    """Build ``kind`` from ``to_plain``'s output. Raises KeyError naming a missing required field."""
    return cast(T, _reader_of_class(cast(type, kind))(plain))


@cache
def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


@cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    found = []
    for field in dataclasses.fields(kind):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found.append((field.name, default))
    return tuple(found)


@cache
def _reader_of_class(kind: type) -> Convert:
    hints = get_type_hints(kind)
    fields = [(f.name, _reader_of(hints[f.name])) for f in dataclasses.fields(kind)]
    required = {
        f.name
        for f in dataclasses.fields(kind)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }

    def read(plain: Any) -> Any:
        missing = required - plain.keys()
        if missing:
            raise KeyError(f"{kind.__name__} lacks {', '.join(sorted(missing))}")
        return kind(**{name: reader(plain[name]) for name, reader in fields if name in plain})

    return read


def _reader_of(hint: Any) -> Convert:
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return lambda plain: _reader_of_class(cast(type, hint))(plain)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if origin is tuple:
        item = _reader_of(args[0])
        return lambda plain: tuple(item(value) for value in plain)
    if origin is frozenset:
        item = _reader_of(args[0])
        return lambda plain: frozenset(item(value) for value in plain)
    if origin in (Union, types.UnionType) and type(None) in args:
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) == 1:
            inner = _reader_of(rest[0])
            return lambda plain: None if plain is None else inner(plain)
    return lambda plain: plain
