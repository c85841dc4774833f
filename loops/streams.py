"""Live pieces of what a model says or a tool prints, gathered to about twenty messages a second (benchmarks.md).

Transient by design: numbered by (call, offset) so that a watcher can append them, and replaced by the stored step.
"""

from __future__ import annotations

import time
from codecs import getincrementaldecoder

from loops.crash_points import CrashPoint, reach
from loops.engine.ports import Feed
from loops.engine.values import ArgumentsDelta, CallDetected, ModelEvent, TextDelta, ThinkingDelta
from loops.masking import StreamMasker
from loops.printable.stream import PrintableInPieces, ProseInPieces

EVERY_S = 0.05
AT_MOST_CHARS = 200_000
"""Of one stream shown live."""
ENDS = f"\n[not shown live beyond {AT_MOST_CHARS:,} characters; the finished step has the rest]\n"
_SENTENCES = frozenset({"text", "thinking"})
"""What a model writes as people do; the stored step shows the rest as ``printable`` does."""


class _Stream:
    def __init__(self, feed: Feed, step: int, call: str) -> None:
        self._feed, self._step, self._call = feed, step, call
        self._parts: dict[str, list[str]] = {}
        self._offsets: dict[str, int] = {}
        self._ended: set[str] = set()
        self._maskers: dict[str, StreamMasker] = {}
        self._readers: dict[str, ProseInPieces] = {}
        self._sent_at = 0.0

    def _add(self, kind: str, text: str) -> None:
        self._show(kind, self._maskers.setdefault(kind, StreamMasker()).feed(text))

    def _show(self, kind: str, text: str) -> None:
        if not text or kind in self._ended:
            return
        if self._offsets.get(kind, 0) > AT_MOST_CHARS:
            self._ended.add(kind)
            text = ENDS
        self._parts.setdefault(kind, []).append(text)
        if time.monotonic() - self._sent_at >= EVERY_S:
            self._send()

    def _send(self) -> None:
        """Read here, and not with each token: to judge a word takes what stands before it in its line."""
        for kind, parts in self._parts.items():
            reader = self._readers.setdefault(kind, ProseInPieces() if kind in _SENTENCES else PrintableInPieces())
            self._say(kind, reader.feed("".join(parts)))
        self._parts = {}
        self._sent_at = time.monotonic()

    def _say(self, kind: str, text: str) -> None:
        if text:
            offset = self._offsets.get(kind, 0)
            self._feed.delta(step=self._step, call=self._call, kind=kind, offset=offset, text=text)
            self._offsets[kind] = offset + len(text)

    def close(self) -> None:
        for kind, masker in self._maskers.items():
            self._show(kind, masker.finish())
        self._send()
        for kind, reader in self._readers.items():
            self._say(kind, reader.finish())


class ModelStream(_Stream):
    """Thinking, text and the names of detected calls of one answer; ``seq`` is the request's place in the journal."""

    def __init__(self, feed: Feed, step: int, seq: int) -> None:
        super().__init__(feed, step, f"m{seq}")

    def on_event(self, event: ModelEvent) -> None:
        reach(CrashPoint.MID_STREAM)
        match event:
            case TextDelta(text):
                self._add("text", text)
            case ThinkingDelta(text):
                self._add("thinking", text)
            case CallDetected(_, name):
                self._add("call", f"{name}\n")
                self._send()
            case ArgumentsDelta():
                pass


class OutputStream(_Stream):
    """stdout and stderr of one tool call."""

    def __init__(self, feed: Feed, step: int, call: str) -> None:
        super().__init__(feed, step, call)
        self._decoders = {name: getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

    def on_output(self, name: str, chunk: bytes) -> None:
        self._add(name, self._decoders[name].decode(chunk).replace("\0", "␀"))
