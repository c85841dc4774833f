"""Messages of a socket: none is longer than LONGEST, whatever is to be said (SPEC R2).

Changes of a run are cut between their parts; all but the last of a row of messages say that more follows, and a page
counts them as seen only when it has the last. A part that alone is too long has to come another way (`frames.fitting`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

LONGEST = 64 * 1024
"""Octets of one message, about what proxies and browsers take without a thought."""
_ENVELOPE = 4 * 1024
"""Room for what stands around the parts: a title of 200 signs takes twelve octets for each as JSON."""
STREAMED_CHARS = 4_000
"""Of one streamed text in one message: eyes follow no more, and what is stored is whole."""


def fits(part: str) -> bool:
    """Whether this text can stand in a message."""
    return _size(part) <= LONGEST - _ENVELOPE


def of_parts(parts: Iterable[str], body: Mapping[str, Any]) -> tuple[str, ...]:
    """``body`` with all parts as its ``html``, in order, over as many messages as they take. Raises ValueError for a
    part that does not fit into any."""
    groups = list(_grouped(parts)) or [""]
    last = len(groups) - 1
    more = [{"more": True}] * last + [{}]
    said = [{**body, "said": ""}] * last + [dict(body)]
    return tuple(json.dumps({**said[number], **more[number], "html": html}) for number, html in enumerate(groups))


def of_deltas(deltas: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Streamed pieces; of a long one its end."""
    found: list[list[Mapping[str, Any]]] = [[]]
    size = 0
    for delta in map(_shortened, deltas):
        more = _size(delta)
        if size + more > LONGEST - _ENVELOPE:
            found.append([])
            size = 0
        found[-1].append(delta)
        size += more + 2
    return tuple(json.dumps({"t": "deltas", "deltas": some}) for some in found if some)


def _shortened(delta: Mapping[str, Any]) -> Mapping[str, Any]:
    left_out = max(0, len(delta["text"]) - STREAMED_CHARS)
    return {**delta, "offset": delta["offset"] + left_out, "text": delta["text"][left_out:]} if left_out else delta


def _grouped(parts: Iterable[str]) -> Iterator[str]:
    group: list[str] = []
    size = 0
    for part in parts:
        if not fits(part):
            raise ValueError(f"a part of {_size(part)} octets is too long for a message")
        more = _size(part)
        if group and size + more > LONGEST - _ENVELOPE:
            yield "".join(group)
            group, size = [], 0
        group.append(part)
        size += more
    if group:
        yield "".join(group)


def _size(value: Any) -> int:
    return len(json.dumps(value))
