"""Canonical JSON bytes (RFC 8785) for everything that is hashed or stored as a fact.

Values that JSON or Postgres cannot carry are mapped, losslessly and visibly, instead of refused, because a model's
output may hold any of them and must never stop a run (reliability#measured, 9):

    NaN, infinities      {"$float": "nan" | "inf" | "-inf"}
    |integer| >= 2**53   {"$int": "<digits>"}
    lone surrogates      {"$utf16": "<hex of the surrogatepass UTF-8 bytes>"}, in keys "$utf16:<hex>"
    bytes                {"$bytes": "<hex>"}
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import orjson
import rfc8785

SHOWN_LEVELS = 100
_SAFE = 2**53
_UTF16_KEY = "$utf16:"
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * 16
_SHORTENED = re.compile(r"… \(([\d,]+) characters\)")
_dumps = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


class _NotPlain(Exception):
    pass


def encode(value: Any) -> bytes:
    """RFC 8785 bytes of ``value``.

    An ordinary encoder already gives RFC 8785 for values made of plain text, safe integers, booleans and ASCII keys
    (same escapes, same order); everything else takes the slower road through ``rfc8785``.
    """
    try:
        _must_be_plain(value)
    except _NotPlain:
        return rfc8785.dumps(_mapped(value))
    return encode_plain(value)


def encode_plain(value: Any) -> bytes:
    """``encode`` for a value whose types are known to be plain: no look at every part of it first."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # deeper than it goes, or a lone surrogate
        pass
    try:
        return _dumps(value).encode()
    except UnicodeEncodeError:
        return rfc8785.dumps(_mapped(value))


def decode(data: bytes | memoryview) -> Any:
    """Inverse of ``encode``, mapped values included."""
    data = bytes(data)
    if b'"$' not in data and not _holds_unsafe_digits(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:  # deeper than it goes
            pass
    return json.loads(data, object_hook=_unmapped, parse_int=_number)


def _holds_unsafe_digits(data: bytes) -> bool:
    """Whether there may be a number of 2**53 or more, which was a float: 17 digits, or 16 that begin with a 9."""
    shape = data.translate(_DIGITS)
    at = shape.find(_LONG)
    while at >= 0:
        if data[at] == 0x39 or shape[at + 16 : at + 17] == b"0":
            return True
        at = shape.find(_LONG, at + 16)
    return False


def sha256(value: Any) -> str:
    """Hex SHA-256 over the canonical bytes."""
    return hashlib.sha256(encode(value)).hexdigest()


def clean(text: str) -> str:
    """``text`` as Postgres text and UTF-8 can hold it: NUL shown as U+2400, lone surrogates as U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "␀")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def whole_length(shown: str, cut: int) -> int:
    """Characters of the text that ``clean_json`` shortened to ``shown``. A text longer than ``cut`` ends in its
    number, which nobody else could write there: that text would have been shortened too."""
    said = _SHORTENED.fullmatch(shown, cut)
    return int(said[1].replace(",", "")) if said else len(shown)


def unshortened(shown: str, cut: int) -> str:
    """``shown`` without the number of characters that ``clean_json`` put behind it."""
    return shown[:cut] if whole_length(shown, cut) != len(shown) else shown


def clean_json(value: Any, cut: int = 0, levels: int = SHOWN_LEVELS) -> Any:
    """``value`` as jsonb can hold it; strings longer than ``cut`` (0: never) are shortened for display, and what is
    nested deeper than ``levels`` is left out."""
    if isinstance(value, str):
        shown = clean(value)
        return shown if not cut or len(shown) <= cut else f"{shown[:cut]}… ({len(shown):,} characters)"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping | list | tuple) and not levels:
        return "… (nested deeper)"
    if isinstance(value, Mapping):
        return {clean(str(key)): clean_json(item, cut, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item, cut, levels - 1) for item in value]
    return value


def _must_be_plain(value: Any) -> None:
    left = [value]
    while left:
        one = left.pop()
        kind = type(one)
        if kind is dict:
            if not all(type(key) is str and key.isascii() and not key.startswith("$") for key in one):
                raise _NotPlain
            left += one.values()
        elif kind is list or kind is tuple:
            left += one
        elif kind is int:
            if not -_SAFE < one < _SAFE:
                raise _NotPlain
        elif kind is not str and one is not None and kind is not bool:
            raise _NotPlain


def _mapped(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"$utf16": value.encode("utf-8", "surrogatepass").hex()}
        return str(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value) if -_SAFE < value < _SAFE else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, Mapping):
        return {_mapped_key(str(key)): _mapped(item) for key, item in value.items()}
    return [_mapped(item) for item in value]


def _mapped_key(key: str) -> str:
    """A key of our own that starts with ``$`` gets a second one, so that it is never read as a mapped value."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return _UTF16_KEY + key.encode("utf-8", "surrogatepass").hex()
    return f"${key}" if key.startswith("$") else key


def _number(digits: str) -> int | float:
    """Integers beyond 2**53 are mapped, so that digits of that size were a float."""
    number = int(digits)
    return number if -_SAFE < number < _SAFE else float(digits)


def _unmapped(pairs: dict[str, Any]) -> Any:
    if len(pairs) == 1:
        ((key, item),) = pairs.items()
        if key == "$float" and isinstance(item, str):
            return float(item)
        if key == "$int" and isinstance(item, str):
            return int(item)
        if key == "$utf16" and isinstance(item, str):
            return bytes.fromhex(item).decode("utf-8", "surrogatepass")
        if key == "$bytes" and isinstance(item, str):
            return bytes.fromhex(item)
    return {_unmapped_key(key): item for key, item in pairs.items()}


def _unmapped_key(key: str) -> str:
    if key.startswith(_UTF16_KEY):
        return bytes.fromhex(key.removeprefix(_UTF16_KEY)).decode("utf-8", "surrogatepass")
    return key.removeprefix("$")
