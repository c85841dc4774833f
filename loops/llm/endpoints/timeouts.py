"""How long a provider may be silent: before the first byte of its answer, and between two later ones (SPEC E6).

A model that computes a long question on a small machine sends nothing for minutes; once it speaks, a long pause means
that it is gone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable

import httpx2

END_MARK = re.compile(rb"data:\s*\[DONE\]\s*$")
_TAIL = 256


class PatientStream(httpx2.AsyncByteStream):
    """The bytes of an answer. ``is_marked_whole``: the provider itself said that this was all of it."""

    def __init__(self, stream: httpx2.AsyncByteStream, first_s: float, between_s: float) -> None:
        self._stream, self._first_s, self._between_s = stream, first_s, between_s
        self._tail = b""

    @property
    def is_marked_whole(self) -> bool:
        """Only of a stream that is not compressed."""
        return bool(END_MARK.search(self._tail))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts, seconds = aiter(self._stream), self._first_s
        while True:
            try:
                async with asyncio.timeout(seconds):
                    part = await anext(parts, None)
            except TimeoutError:
                raise httpx2.ReadTimeout(f"no byte for {seconds:g} s") from None
            if part is None:
                return
            self._tail = (self._tail + part)[-_TAIL:]
            yield part
            seconds = self._between_s

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()


def hooks(first_s: float, between_s: float, *, first: Callable[..., object]) -> dict[str, list[Callable[..., object]]]:
    """Event hooks of a client whose answers are read with patience, after ``first`` has seen them."""

    async def wrap(response: httpx2.Response) -> None:
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = PatientStream(response.stream, first_s, between_s)

    return {"response": [first, wrap]}


def is_marked_whole(response: httpx2.Response) -> bool:
    """Did the provider end its stream with the mark that stands for the end?"""
    return isinstance(response.stream, PatientStream) and response.stream.is_marked_whole


def words_of(error: BaseException, seconds: float) -> str:
    """What is told of a silence that was too long; ``seconds`` where the error does not know how long it was."""
    told = (str(found) for found in (error, error.__cause__) if isinstance(found, httpx2.ReadTimeout))
    return next(filter(None, told), f"no byte for {seconds:g} s")
