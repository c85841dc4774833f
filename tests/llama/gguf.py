"""Write a GGUF file (version 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGNMENT = 32


def write(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
    """Write ``metadata`` (text, whole numbers, floats, booleans, lists of one kind) and 32-bit float ``tensors``."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    parts += [_text(key) + _typed(value) for key, value in metadata.items()]
    offset = 0
    bodies = []
    for name, tensor in tensors.items():
        body = np.ascontiguousarray(tensor, dtype=np.float32).tobytes()
        shape = tensor.shape[::-1]
        parts.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset))
        bodies.append(body + bytes(-len(body) % ALIGNMENT))
        offset += len(bodies[-1])
    head = b"".join(parts)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + b"".join(bodies))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _typed(value: Any) -> bytes:
    kind = _kind(value)
    if kind != ARRAY:
        return struct.pack("<I", kind) + _plain(kind, value)
    inner = INT32 if _kind(value[0]) == UINT32 else _kind(value[0])
    return struct.pack("<IIQ", ARRAY, inner, len(value)) + b"".join(_plain(inner, item) for item in value)


def _plain(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _text(value)
    return struct.pack({BOOL: "<?", FLOAT32: "<f", INT32: "<i", UINT32: "<I"}[kind], value)


def _kind(value: Any) -> int:
    match value:
        case bool():
            return BOOL
        case int():
            return UINT32
        case float():
            return FLOAT32
        case str():
            return STRING
        case Sequence():
            return ARRAY
    raise TypeError(type(value))
