"""One test runner's report as it comes in: JSON lines of a stranger, read within bounds (SPEC L1, ADR 0078). Pure.

Whatever runs in the sandbox may connect and write anything. What is no report makes all of it unusable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.tools.output import clean_text

VERSION = 1
MOST_BYTES, MOST_TESTS, MOST_SESSIONS, LONGEST_LINE = 20 << 20, 200_000, 64, 64 * 1024
"""Of all sessions of one command together, and of one line."""
LONGEST_MESSAGE, LONGEST_RUNNER = 300, 40


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    """It failed, as it was expected to."""
    XPASSED = "xpassed"


_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


class Unusable(Exception):
    """The report of this command cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Session:
    """One process of a test runner. ``collected`` is None where the runner does not say which tests it will run, and
    ``exit`` where it was cut short."""

    runner: str
    collected: frozenset[str] | None = None
    deselected: frozenset[str] = frozenset()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    exit: int | None = None


@dataclass(slots=True)
class Room:
    """What is left of the bounds, for all sessions of one command."""

    bytes: int = MOST_BYTES
    tests: int = MOST_TESTS
    sessions: int = MOST_SESSIONS

    def take(self, name: str, amount: int, most: int, what: str) -> None:
        left = getattr(self, name) - amount
        setattr(self, name, left)
        if left < 0:
            raise Unusable(f"it has more than {most:,} {what}")


class SessionReader:
    """A session that is still being read. ``feed`` raises Unusable."""

    def __init__(self, room: Room) -> None:
        room.take("sessions", 1, MOST_SESSIONS, "sessions")
        self._room = room
        self._rest = b""
        self._runner = ""
        self._collected: set[str] | None = None
        self._deselected: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._messages: dict[str, str] = {}
        self._exit: int | None = None

    @property
    def has_ended(self) -> bool:
        return self._exit is not None

    def feed(self, data: bytes) -> None:
        """The next bytes of the connection."""
        self._room.take("bytes", len(data), MOST_BYTES, "bytes")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > LONGEST_LINE:
            raise Unusable(f"a line has more than {LONGEST_LINE:,} bytes")
        if self._rest and self.has_ended:
            raise Unusable("something follows the end of a session")

    def session(self) -> Session:
        """As far as it came."""
        return Session(
            self._runner,
            None if self._collected is None else frozenset(self._collected),
            frozenset(self._deselected),
            self._outcomes,
            self._messages,
            self._exit,
        )

    def _line(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE:
            raise Unusable(f"a line has more than {LONGEST_LINE:,} bytes")
        if self.has_ended:
            raise Unusable("something follows the end of a session")
        event = _event(line)
        kind = event.get("event")
        if (kind == "start") == bool(self._runner):
            raise Unusable("a session begins more than once" if self._runner else "a session does not begin")
        match kind:
            case "start":
                self._start(event)
            case "collected":
                self._collect(event)
            case "test":
                self._test(event)
            case "end":
                self._exit = _whole(event, "exit")
            case _:
                raise Unusable("an event is none that is known")

    def _start(self, event: Mapping[str, Json]) -> None:
        if event.get("v") != VERSION:
            raise Unusable(f"a session is not of version {VERSION}")
        self._runner = shortened(clean_text(_text(event, "runner")), LONGEST_RUNNER)

    def _collect(self, event: Mapping[str, Json]) -> None:
        tests, deselected = _names(event, "tests"), _names(event, "deselected")
        self._room.take("tests", len(tests) + len(deselected), MOST_TESTS, "tests")
        self._collected = (self._collected or set()) | set(tests)
        self._deselected |= set(deselected)

    def _test(self, event: Mapping[str, Json]) -> None:
        name, outcome = _text(event, "id"), _text(event, "outcome")
        if name in self._outcomes:
            raise Unusable("a test ends twice in a session")
        if outcome not in _OUTCOMES:
            raise Unusable("the outcome of a test is none that is known")
        if self._collected is None or name not in self._collected:
            self._room.take("tests", 1, MOST_TESTS, "tests")
        self._outcomes[name] = Outcome(outcome)
        message = event.get("message", "")
        if isinstance(message, str) and message:
            self._messages[name] = shortened(clean_text(message), LONGEST_MESSAGE)


def _event(line: bytes) -> Mapping[str, Json]:
    try:
        event = json.loads(line.decode())
    except UnicodeDecodeError:
        raise Unusable("a line is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Unusable("a line is not JSON") from None
    if not isinstance(event, dict):
        raise Unusable("a line is not a JSON object")
    return event


def _text(event: Mapping[str, Json], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise Unusable(f'an event has no "{name}"')
    return clean_text(value)


def _whole(event: Mapping[str, Json], name: str) -> int:
    value = event.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unusable(f'an event has no "{name}"')
    return value


def _names(event: Mapping[str, Json], name: str) -> list[str]:
    value = event.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise Unusable(f'an event has no "{name}"')
    return [clean_text(str(one)) for one in value]
