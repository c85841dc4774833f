"""Scenarios by name, for ``python -m tests.wire.server --scenario NAME``."""

from __future__ import annotations

from tests.wire import humaneval
from tests.wire.say import Handler, Raw, Say, Seen, Wire


def hello(seen: Seen) -> Say:
    return Say(thinking="Somebody says hello.", text="Hello! What shall I do?")


def overloaded(seen: Seen) -> Raw:
    return Raw.error(529, "overloaded_error", "Overloaded")


def flaky(seen: Seen) -> Say | Raw:
    """HumanEval, with every third request failing in another way."""
    kind = seen.number % 9
    if kind == 2:
        return Raw.error(429, "rate_limit_error", "Slow down", retry_after_ms="200")
    if kind == 5:
        return Raw.error(529, "overloaded_error", "Overloaded")
    if kind == 8:
        return Say(text="I was about to say something important", wire=Wire(events=3, then="reset"))
    return humaneval.scenario(seen)


def slow(seen: Seen) -> Say:
    return Say(thinking="I think about this for a long time. " * 100, text="Done.", wire=Wire(pace=0.2))


def silent(seen: Seen) -> Say:
    return Say(text="I begin, and then nothing more comes.", wire=Wire(events=3, then="stall"))


SCENARIOS: dict[str, Handler] = {
    "hello": hello,
    "humaneval": humaneval.scenario,
    "overloaded": overloaded,
    "flaky": flaky,
    "slow": slow,
    "silent": silent,
}
