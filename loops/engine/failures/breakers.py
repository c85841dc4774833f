"""Circuit breakers of tools and models (SPEC E5): a pure state machine, and the port through which the driver asks.

CLOSED lets every call pass and counts failures in a row; ``threshold`` of them within ``window_s`` open it. OPEN
refuses until the cooldown is over. Then it is HALF_OPEN for one caller, over all workers: the probe. A good probe
closes it, a failed one opens it again for twice as long, up to ``LONGEST_COOLDOWN_S``. A probe whose worker is gone is
anybody's.

Times are microseconds since the epoch by the clock of whoever keeps the breakers: the database's, never a worker's.
Only failures of the tool or the endpoint itself count: never bad arguments, an exit code, or what an agent's own
program does to itself, or one run could close a tool to all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from loops.engine import prompts
from loops.engine.encoding.replace import evolve
from loops.engine.values import FailureKind, ToolResult

TOOL, MODEL = "tool", "model"
LONGEST_COOLDOWN_S = 900
MOST_DOUBLINGS = 10


class Status(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class Rule:
    """What an admin sets (SPEC E5). ``enabled`` off: failures are not counted."""

    threshold: int = 5
    window_s: int = 60
    cooldown_s: int = 30
    enabled: bool = True


@dataclass(frozen=True)
class Breaker:
    status: Status = Status.CLOSED
    failed_at: tuple[int, ...] = ()
    """When it failed, in a row: a success forgets them all."""
    why: str = ""
    opened_at: int = 0
    """When it stopped letting calls pass; a failed probe does not change it."""
    open_until: int = 0
    probes_failed: int = 0
    probe: str = ""
    """Who may try it while it is HALF_OPEN."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The call may be made. ``probe``: on behalf of everybody."""

    probe: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call may not be made. ``until`` is 0 while somebody else's probe is under way."""

    name: str
    since: int
    until: int
    why: str


def failed(breaker: Breaker, rule: Rule, now: int, who: str, why: str, wait_s: float = 0.0) -> Breaker:
    """After a failure that counts. ``wait_s`` is the other side's own wish, so that it is not asked sooner."""
    if not rule.enabled:
        return Breaker()
    if breaker.status is Status.CLOSED:
        recent = (*(at for at in breaker.failed_at if now - at < rule.window_s * 1_000_000), now)[-rule.threshold :]
        counted = evolve(breaker, failed_at=recent, why=why)
        return _opened(counted, rule, now, wait_s) if len(recent) >= rule.threshold else counted
    if breaker.status is Status.HALF_OPEN and breaker.probe == who:
        again = evolve(breaker, why=why, probes_failed=breaker.probes_failed + 1)
        return _opened(again, rule, now, wait_s)
    return breaker  # of a call begun before it opened


def succeeded(breaker: Breaker, who: str) -> Breaker:
    """After a good call: failures in a row are over, and a good probe closes."""
    if breaker.status is Status.CLOSED or (breaker.status is Status.HALF_OPEN and breaker.probe == who):
        return Breaker()
    return breaker


def admit(breaker: Breaker, now: int, who: str, probe_lives: bool) -> Breaker | None:
    """The breaker after ``who`` was let pass, perhaps as its probe; None when it refuses.

    ``probe_lives`` says whether the one who has the probe still owns its run.
    """
    match breaker.status:
        case Status.CLOSED:
            return breaker
        case Status.OPEN if now < breaker.open_until:
            return None
        case Status.HALF_OPEN if breaker.probe == who:
            return breaker
        case Status.HALF_OPEN if probe_lives:
            return None
    return evolve(breaker, status=Status.HALF_OPEN, probe=who)


def refusal(breaker: Breaker, name: str) -> Refusal:
    """What is told of a breaker that does not let a call pass."""
    until = breaker.open_until if breaker.status is Status.OPEN else 0
    return Refusal(name, breaker.opened_at, until, breaker.why)


def _opened(breaker: Breaker, rule: Rule, now: int, wait_s: float) -> Breaker:
    cooldown = min(rule.cooldown_s * 2 ** min(breaker.probes_failed, MOST_DOUBLINGS), LONGEST_COOLDOWN_S)
    seconds = max(cooldown, min(wait_s, LONGEST_COOLDOWN_S))
    return evolve(
        breaker,
        status=Status.OPEN,
        opened_at=breaker.opened_at or now,
        open_until=now + int(seconds * 1e6),
        failed_at=(),
        probe="",
    )


def tool_fault(result: ToolResult) -> str:
    """Which fault of the tool itself this is; "" for a good result and for what it was asked to do going wrong."""
    return "" if result.ok else result.fault


def model_is_at_fault(kind: FailureKind) -> bool:
    """A request that is refused for what it says shows that the endpoint works."""
    return kind is not FailureKind.SYSTEMATIC


def told(refused: Refusal, now: int) -> str:
    """Why a tool was not run, for the model that wanted it."""
    when = prompts.fill("breaker_open_tried")
    if refused.until:
        seconds = max(1, (refused.until - now) // 1_000_000)
        when = prompts.fill("breaker_open_until", until=_clock(refused.until), seconds=seconds)
    return prompts.fill("breaker_open", tool=refused.name, why=refused.why, since=_clock(refused.since), when=when)


def _clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%H:%M:%S} UTC"


class Breakers(Protocol):
    """The breakers as one owned run sees them. ``kind`` is TOOL or MODEL."""

    def refuses(self, kind: str, name: str) -> Refusal | None:
        """Would a call be refused now? Takes nothing and may be a second old."""
        ...

    def admit(self, kind: str, name: str) -> Admitted | Refusal:
        """Ask right before a call; it may become the probe, and whoever has it reports how it went."""
        ...

    def failed(self, kind: str, name: str, why: str, wait_s: float = 0.0) -> None: ...

    def succeeded(self, kind: str, name: str) -> None: ...


class AlwaysClosed:
    """No breakers: every call passes."""

    def refuses(self, kind: str, name: str) -> Refusal | None:
        return None

    def admit(self, kind: str, name: str) -> Admitted | Refusal:
        return Admitted()

    def failed(self, kind: str, name: str, why: str, wait_s: float = 0.0) -> None:
        return

    def succeeded(self, kind: str, name: str) -> None:
        return
