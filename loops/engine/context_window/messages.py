"""The messages of a conversation, as a value that grows by one at a constant price (SPEC J7).

``Turns`` look like a tuple. What was said is kept once, in a list that all longer versions share; only the last
message, which may still grow, is held apart. A version that somebody went on from before gets a list of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

from loops.engine.encoding.canonical import encode
from loops.engine.values import Block, Message


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, and what is known of it beyond what the model reads.

    ``people`` is what people said in it, in words that stand alone: it outlives the message. ``notes`` say what was
    done, a line for each call. ``calls`` are our own ids of the results in it. ``summary_at`` is the place of the block
    that stands for messages left out after it, -1 without one.
    """

    message: Message
    size: int
    """Bytes of the message as JSON."""
    people: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    summary_at: int = -1

    @property
    def blocks(self) -> tuple[Block, ...]:
        content = self.message["content"]
        return tuple(content) if isinstance(content, list) else ()


def message_of(role: str, blocks: Sequence[Block]) -> Message:
    return {"role": role, "content": list(blocks)}


def size_of(message: Message) -> int:
    return len(encode(message))


class Turns(Sequence[Turn]):
    """Immutable to everyone outside of this class. ``size`` is that of all messages together, in bytes."""

    __slots__ = ("_last", "_length", "_shared", "size")

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self._shared: list[Turn] = list(turns[:-1])
        self._length = len(self._shared)
        self._last: Turn | None = turns[-1] if turns else None
        self.size = sum(turn.size for turn in turns)

    def added(self, turn: Turn) -> Turns:
        """With one more at the end."""
        if self._last is None:
            return self._made([], 0, turn, turn.size)
        shared = self._shared if len(self._shared) == self._length else self._shared[: self._length]
        shared.append(self._last)
        return self._made(shared, self._length + 1, turn, self.size + turn.size)

    def with_last(self, turn: Turn) -> Turns:
        """With another one in the place of the last."""
        return self._made(self._shared, self._length, turn, self.size - self[-1].size + turn.size)

    @staticmethod
    def _made(shared: list[Turn], length: int, last: Turn, size: int) -> Turns:
        made = object.__new__(Turns)
        made._shared, made._length, made._last, made.size = shared, length, last, size
        return made

    def __len__(self) -> int:
        return self._length + (self._last is not None)

    def __iter__(self) -> Iterator[Turn]:
        yield from islice(self._shared, self._length)
        if self._last is not None:
            yield self._last

    @overload
    def __getitem__(self, at: int) -> Turn: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, at: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(at)
        return self._last if number == self._length else self._shared[number]  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turns) and len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


class Messages(Sequence[Message]):
    """The messages of ``Turns``, as models take them."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __len__(self) -> int:
        return len(self._turns)

    def __iter__(self) -> Iterator[Message]:
        return (turn.message for turn in self._turns)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, at: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(at, slice):
            return tuple(turn.message for turn in self._turns[at])
        return self._turns[at].message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


def _equal(one: Any, other: Any) -> bool:
    return bool(one is other or one == other)
