"""Fifty faults for agents to meet: what goes wrong, and what a sensible agent would try next.

The agent of a case has a list of moves. It goes on to the next one when the latest was carried out, or when it failed
and the agent has read so; a move may be meant to fail. It knows nothing of AgentOps but what the conversation says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.engine.values import Json, Reversibility, ToolResult, ToolSpec
from loops.tools.registry import Tool, ToolRun
from tests.wire.say import Raw, Say, Seen, Wire

Call = tuple[str, Mapping[str, Any]]
Answer = Callable[[Seen, Say], Say | Raw]
"""What the wire makes of what the model wants to say."""

LOG: Call = ("run_command", {"command": "echo once >> log.txt"})
RIGHT: Call = ("write_file", {"path": "answer.txt", "content": "42\n"})
WRONG: Call = ("write_file", {"path": "answer.txt", "content": "41\n"})
DONE: Call = ("task_completion", {"result": "The answer is in answer.txt."})
CRITERION = {"text": "The answer is 42", "command": 'test "$(cat answer.txt)" = 42 && test "$(cat log.txt)" = once'}
GOAL = "Write the answer to everything into answer.txt, and a line into log.txt, once."


@dataclass(frozen=True)
class Case:
    """One fault. ``moves`` are the agent's calls; ``wire`` breaks answers; ``models`` are fields of main and spare."""

    group: str
    name: str
    moves: Sequence[Call] = (LOG, RIGHT, DONE)
    wire: Callable[[], Answer] | None = None
    provider: str = "anthropic"
    spare: bool = False
    main: Mapping[str, Any] = field(default_factory=dict)
    rule: Mapping[str, int] = field(default_factory=dict)
    """Of the model's breaker."""
    hopeless: bool = False
    """Nothing can be done without a person: the right end is a reason."""


class Agent:
    """Plays the moves of one case; remembers what it did, as a model would that reads its own conversation."""

    def __init__(self, case: Case) -> None:
        self.moves, self.at = list(case.moves), 0
        self.answer = case.wire() if case.wire else (lambda seen, say: say)
        self.said: dict[tuple[str, ...], Say] = {}

    def __call__(self, seen: Seen) -> Say | Raw:
        """The same conversation gets the same move, whoever asks: an answer that broke off is asked for again. Without
        tools it is a judgement of the run that is asked for, and no move: this one hides nothing that was measured."""
        if not seen.body.get("tools"):
            return Say(text='{"confidence": 1.0, "reason": "It has a plan."}')
        key = _conversation(seen)
        if key not in self.said:
            move = self.moves[min(self.at, len(self.moves) - 1)]
            self.at += 1
            text = f"Move {self.at}: I try {move[0]} now, because what I did before has come to an end."
            self.said[key] = Say(text=text, calls=[move], ids=(f"call_{self.at}",))
        return self.answer(seen, self.said[key])


def _conversation(seen: Seen) -> tuple[str, ...]:
    """What has been said and done so far, the same in the form of either provider."""
    told = [message["content"] for message in seen.messages if message["role"] == "user"]
    texts = [
        block.get("text", "") if isinstance(block, Mapping) else block
        for content in told
        for block in (content if isinstance(content, list) else [content])
    ]
    return (*seen.call_ids, "".join("".join(texts).split()))


# --- what the wire does ----------------------------------------------------------------------------------------------


def refuses(status: int, kind: str, *, times: int = 1, at: int = 1, **headers: str) -> Callable[[], Answer]:
    """An error instead of answers ``at`` and after, so many times."""

    def make() -> Answer:
        left = times

        def answer(seen: Seen, say: Say) -> Say | Raw:
            nonlocal left
            if seen.turn < at or left <= 0 or seen.body["model"] != "main-1":
                return say
            left -= 1
            if kind == "html":
                return Raw(status, {"content-type": "text/html"}, "<html><title>Bad Gateway</title></html>")
            return Raw.error(status, kind, "No", **headers)

        return answer

    return make


def breaks(then: str, *, events: int = 7, insert: str = "", at: int = 1) -> Callable[[], Answer]:
    """The answer breaks off in the middle of its call, once."""

    def make() -> Answer:
        broken = False

        def answer(seen: Seen, say: Say) -> Say | Raw:
            nonlocal broken
            if seen.turn < at or broken:
                return say
            broken = True
            if insert:
                return Say(text=say.text, calls=say.calls, ids=say.ids, wire=Wire(insert={events: insert}))
            return Say(text=say.text, calls=say.calls, ids=say.ids, wire=Wire(events=events, then=then))  # type: ignore[arg-type]

        return answer

    return make


def garbles(**how: Any) -> Callable[[], Answer]:
    """The second answer's call is not what it should be, once."""

    def make() -> Answer:
        done = False

        def answer(seen: Seen, say: Say) -> Say | Raw:
            nonlocal done
            if seen.turn < 1 or done:
                return say
            done = True
            return Say(text=say.text, calls=say.calls, ids=say.ids, **how)

        return answer

    return make


OVERLOADED = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
OVERLOADED_OPENAI = 'data: {"error": {"type": "server_error", "code": "server_is_overloaded", "message": "Sorry"}}\n\n'


# --- tools that fail of themselves -----------------------------------------------------------------------------------


class Flaky:
    """A tool that fails its first calls in one way. ``left`` is set for each case."""

    def __init__(self, name: str, fail: Callable[[], Any]) -> None:
        self.name, self.left, self._fail = name, 0, fail

    async def run(self, arguments: Mapping[str, Json], run: ToolRun) -> ToolResult:
        if self.left > 0:
            self.left -= 1
            await self._fail()
        return ToolResult(ok=True, content="The answer is 42.")

    def tool(self) -> Tool:
        spec = ToolSpec(
            name=self.name,
            description="Look the answer up.",
            parameters={"type": "object", "properties": {"about": {"type": "string"}}, "additionalProperties": False},
            timeout_s=0.2,
            operation="read",
            reversibility=Reversibility.PURE,
            retriable=True,
        )
        return Tool(spec, self.run)


async def _crash() -> None:
    raise RuntimeError("index corrupted")


async def _hang() -> None:
    await asyncio.sleep(60)


async def _disconnect() -> None:
    raise ConnectionResetError("peer went away")


FLAKY = {
    "oracle_crashes": Flaky("oracle_crashes", _crash),
    "oracle_hangs": Flaky("oracle_hangs", _hang),
    "oracle_disconnects": Flaky("oracle_disconnects", _disconnect),
}
FAILURES = {"crashes once": 1, "crashes three times": 3, "is broken": 99}


def asks(name: str, *about: str) -> list[Call]:
    return [(name, {"about": one}) for one in about]


# --- the fifty -------------------------------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    yield from _refusals()
    yield from _streams()
    yield from _outages()
    yield from _tools()
    yield from _agents()


def _refusals() -> Iterator[Case]:
    for status, kind in ((500, "api_error"), (502, "html"), (503, "api_error"), (504, "timeout_error")):
        yield Case("transient API error", f"{status} once", wire=refuses(status, kind))
    for provider in ("anthropic", "openai"):
        yield Case("transient API error", f"529 twice, {provider}", wire=refuses(529, "x", times=2), provider=provider)
        yield Case("transient API error", f"408 at first, {provider}", wire=refuses(408, "x", at=0), provider=provider)
    yield Case("429 with retry-after", "in seconds", wire=refuses(429, "rate_limit_error", retry_after="1"))
    yield Case("429 with retry-after", "at first", wire=refuses(429, "rate_limit_error", at=0, retry_after="1"))
    yield Case("429 with retry-after", "in ms", wire=refuses(429, "rate_limit_error", retry_after_ms="700"))
    for provider in ("anthropic", "openai"):
        again = refuses(429, "rate_limit_error", times=2, retry_after="1")
        yield Case("429 with retry-after", f"twice, {provider}", wire=again, provider=provider)


def _streams() -> Iterator[Case]:
    yield Case("broken stream", "overloaded, anthropic", wire=breaks("", insert=OVERLOADED))
    yield Case("broken stream", "overloaded, openai", wire=breaks("", insert=OVERLOADED_OPENAI), provider="openai")
    for then in ("reset", "cut", "stall"):
        yield Case("broken stream", f"{then}, anthropic", wire=breaks(then))
        yield Case("broken stream", f"{then}, openai", wire=breaks(then, events=9), provider="openai")
    garbage = "event: message_delta\ndata: {broken\n\n"
    yield Case("broken stream", "garbage", wire=breaks("", insert=garbage))
    again = (LOG, RIGHT, RIGHT, DONE)
    yield Case("broken stream", "early end", again, wire=breaks("end"))


def _outages() -> Iterator[Case]:
    quick = {"threshold": 2, "cooldown_s": 1}
    yield Case(
        "outage, with a fallback", "529", wire=refuses(529, "overloaded_error", times=99), spare=True, rule=quick
    )
    yield Case("outage, with a fallback", "wrong key", wire=refuses(401, "authentication_error", times=99), spare=True)
    yield Case(
        "outage, with a fallback", "nobody listens", spare=True, main={"base_url": "http://127.0.0.1:9"}, rule=quick
    )
    yield Case(
        "outage, with a fallback",
        "no quota, openai",
        wire=refuses(429, "insufficient_quota", times=99),
        provider="openai",
        spare=True,
    )
    yield Case("outage, without a fallback", "back after 4", wire=refuses(503, "api_error", times=4), rule=quick)
    yield Case("outage, without a fallback", "back after 3", wire=refuses(529, "x", times=3, at=0), rule=quick)
    yield Case(
        "outage, without a fallback", "wrong key", wire=refuses(401, "authentication_error", times=99), hopeless=True
    )


def _tools() -> Iterator[Case]:
    for name, times in FAILURES.items():
        moves = [LOG, *asks("oracle_crashes", "everything", "life", "all", "it")[: times + 1], RIGHT, DONE]
        yield Case("tool crash", name, moves)
    yield Case("tool crash", "connection lost", [LOG, *asks("oracle_disconnects", "everything", "life"), RIGHT, DONE])
    yield Case("tool timeout", "hangs once", [LOG, *asks("oracle_hangs", "everything", "life"), RIGHT, DONE])
    slow: Call = ("run_command", {"command": "sleep 30", "timeout_s": 1})
    yield Case("tool timeout", "command", [LOG, slow, RIGHT, DONE])
    yield Case("tool timeout", "command twice", [LOG, slow, slow, RIGHT, DONE])


def _agents() -> Iterator[Case]:
    again = (LOG, RIGHT, RIGHT, DONE)
    broken = garbles(raw_json={0: '{"path": "answer.txt", "content": 42'})
    yield Case("malformed call", "broken JSON", again, wire=broken)
    yield Case("malformed call", "broken JSON, openai", again, wire=broken, provider="openai")
    yield Case("malformed call", "cut by max_tokens", again, wire=garbles(stop="max_tokens"))
    yield Case("malformed call", "wrong schema", (LOG, ("write_file", {"file": "answer.txt"}), RIGHT, DONE))
    yield Case("malformed call", "unknown tool", (LOG, ("save", {"text": "42"}), RIGHT, DONE))
    yield Case("denied permission", "matrix", (LOG, ("make_directory", {"path": "answers"}), RIGHT, DONE))
    yield Case("denied permission", "outside", (LOG, ("write_file", {"path": "../answer", "content": ""}), RIGHT, DONE))
    protected: Call = ("write_file", {"path": ".git/hooks/pre-commit", "content": "x"})
    yield Case("denied permission", "protected file", (LOG, protected, RIGHT, DONE))
    yield Case("wrong approach", "wrong answer", (LOG, WRONG, DONE, RIGHT, DONE))
    failing: Call = ("run_command", {"command": "python3 -c 'import numpie'"})
    yield Case("wrong approach", "failing command", (LOG, failing, RIGHT, DONE))
    other: Call = ("run_command", {"command": "cat notes/answer"})
    yield Case("wrong approach", "three failing ways", (LOG, failing, other, ("read_file", {"path": "a"}), RIGHT, DONE))
    yield Case("wrong approach", "the same again", (LOG, failing, failing, RIGHT, DONE))
    yield Case("wrong approach", "no way at all", (LOG, failing), hopeless=True)
