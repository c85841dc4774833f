"""Random histories of a conversation, as facts: what pruning has to cope with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.state.spec import Criterion
from loops.engine.values import ModelRole, StopReason, ToolCall, ToolResult, Usage
from tests.fakes import spec

GOAL, CONSTRAINT, CRITERION = "Mend the invoices", "Never touch the archive", "the tests pass"


@dataclass(frozen=True)
class Exchange:
    """One answer and what came after it. ``results``: characters of each result, negative for an error."""

    results: tuple[int, ...] = (10,)
    thinking: int = 0
    argument: int = 10
    people: tuple[str, ...] = ()
    """What a person does meanwhile: message, answer, reject, doubt."""
    reminded: bool = False


def started() -> f.RunStarted:
    task = spec(goal=GOAL, constraints=CONSTRAINT)
    task = task.__class__(**{**_fields(task), "criteria": (Criterion(CRITERION, "make test"),)})
    return f.RunStarted(spec=task, system="Be good.", prompt_version="p", tools_sha256="t", at=1)


def _fields(task: Any) -> dict[str, Any]:
    return {name: getattr(task, name) for name in task.__dataclass_fields__}


def facts_of(exchanges: Sequence[Exchange]) -> list[f.Fact]:
    """The facts of a run in which this happened; what people say carries its number, so that it can be found again."""
    facts: list[f.Fact] = [started()]
    for number, exchange in enumerate(exchanges, 1):
        facts += [
            f.ModelRequested(role=ModelRole.ACTOR, model="m", request_sha256="r"),
            _answer(number, exchange),
            *_after(number, exchange),
        ]
    return facts


def told(exchanges: Sequence[Exchange]) -> Transcript:
    return folded(facts_of(exchanges))


def folded(facts: Sequence[f.Fact]) -> Transcript:
    transcript = Transcript()
    for fact in facts:
        transcript = extend(transcript, fact)
    return transcript


def said_by_people(exchanges: Sequence[Exchange]) -> list[str]:
    """The words of people, in order: each must be found in the conversation, whatever is done to it."""
    found = []
    for number, exchange in enumerate(exchanges, 1):
        kinds = exchange.people if exchange.results else tuple(k for k in exchange.people if k == "message")
        found += [f"{kind} {number} by a person" for kind in dict.fromkeys(kinds)]
    return found


def _answer(number: int, exchange: Exchange) -> f.ModelAnswered:
    argument = f"{number} " + "a" * exchange.argument
    calls = tuple(ToolCall(f"p{number}.{at}", "look", {"at": argument}) for at in range(len(exchange.results)))
    blocks: list[dict[str, Any]] = []
    if exchange.thinking:
        blocks.append({"type": "thinking", "thinking": "t" * exchange.thinking, "signature": "s"})
    blocks.append({"type": "text", "text": f"thought {number}"})
    blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in calls]
    return f.ModelAnswered(
        role=ModelRole.ACTOR,
        model="m",
        provider="p",
        model_id="p",
        stop=StopReason.TOOL_USE if calls else StopReason.END_TURN,
        usage=Usage(10, 5),
        blocks=tuple(blocks),
        text=f"thought {number}",
        calls=calls,
    )


def _after(number: int, exchange: Exchange) -> list[f.Fact]:
    kinds, facts = list(dict.fromkeys(exchange.people)), list[f.Fact]()
    if "message" in kinds:
        facts.append(f.MessageReceived(text=f"message {number} by a person", by="ana"))
    for at, size in enumerate(exchange.results):
        call_id = f"c{number}.{at}"
        person = next((kind for kind in kinds if kind != "message"), "") if at == 0 else ""
        facts.append(_outcome(call_id, person, number, size))
    if exchange.reminded or not (exchange.results or "message" in kinds):
        facts.append(f.Reminded(reason="no_tool_call", text="Use a tool."))
    return facts


def _outcome(call_id: str, person: str, number: int, size: int) -> f.Fact:
    words = f"{person} {number} by a person"
    match person:
        case "answer":
            return f.GateDecided(
                gate="g", kind="question", verdict="respond", payload={"answer": words}, call_id=call_id
            )
        case "reject":
            return f.ToolRefused(call_id=call_id, tool="look", why="rejected", message=f"Rejected: {words}")
        case "doubt":
            given = {"outcome": "done", "result": words}
            return f.GateDecided(gate="g", kind="in_doubt", verdict="respond", payload=given, call_id=call_id)
    text = f"{number} " + "x" * abs(size)
    result = ToolResult(ok=size >= 0, content=text, error="" if size >= 0 else "boom")
    return f.ToolCompleted(call_id=call_id, tool="look", result=result)


_SIZES = st.one_of(st.integers(0, 60), st.integers(-300, 3000), st.sampled_from([0, 1500, 20_000, -20_000]))
exchanges: st.SearchStrategy[Exchange] = st.builds(
    Exchange,
    results=st.lists(_SIZES, max_size=3).map(tuple),
    thinking=st.sampled_from([0, 0, 0, 50, 4000]),
    argument=st.sampled_from([0, 10, 10, 2000]),
    people=st.lists(st.sampled_from(["message", "answer", "reject", "doubt"]), max_size=2, unique=True)
    .filter(lambda kinds: sum(kind != "message" for kind in kinds) < 2)
    .map(tuple),
    reminded=st.booleans(),
)
histories: st.SearchStrategy[list[Exchange]] = st.lists(exchanges, min_size=0, max_size=14)
