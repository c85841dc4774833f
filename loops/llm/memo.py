"""What was made of each message of a conversation, kept while the conversation only grows (SPEC J7).

A request holds everything said so far; to clean and translate all of it again at every step would cost more with each
step. Messages are never changed, so what was made of one holds for as long as it is the same object in the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from loops.engine.values import Message

T = TypeVar("T")


class Memo(Generic[T]):
    """``make`` turns a message into whatever goes out; it is given the message before as well, None for the first."""

    def __init__(self, make: Callable[[Message, Message | None], T]) -> None:
        self._make = make
        self._known: list[tuple[Message, T]] = []
        self.made = 0
        """Messages translated so far."""

    def of(self, messages: Sequence[Message]) -> list[T]:
        """One for each message. Callers must not change them. Made anew from the first message that is another one."""
        known = self._known
        same = 0
        for message, (before, _) in zip(messages, known, strict=False):
            if message is not before:
                break
            same += 1
        del known[same:]
        previous = known[-1][0] if known else None
        for message in messages[same:]:
            known.append((message, self._make(message, previous)))
            self.made += 1
            previous = message
        return [made for _, made in known]
