"""The conversation: calls and results stay together, people are always heard, the digest tells histories apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.state.spec import Criterion
from loops.engine.values import ModelRole, StopReason, ToolResult
from tests.fakes import Tools, World, done, says
from tests.unit.engine.adversary import Plan, check_conversation, plans
from tests.unit.engine.adversary import World as Adverse
from tests.unit.engine.effort import examples
from tests.unit.engine.test_reducers import REQUESTED, STARTED, answered


def told(facts: list[f.Fact]) -> Transcript:
    transcript = Transcript()
    for fact in facts:
        transcript = extend(transcript, fact)
    return transcript


def history(plan: Plan) -> list[f.Fact]:
    world = Adverse(plan)
    world.live()
    return world.journal.facts


@pytest.mark.spec("U1", "C3")
@examples(usual=60, full=1500)
@given(plans)
def test_calls_and_results_are_never_torn_apart(plan: Plan) -> None:
    """At every moment the finished part of the conversation is one that a provider accepts."""
    transcript = Transcript()
    for fact in history(plan):
        transcript = extend(transcript, fact)
        messages = transcript.messages[:-1] if transcript.open_calls() else transcript.messages
        check_conversation(messages)
        assert transcript.open_calls() or not (transcript.results or transcript.extra)


@pytest.mark.spec("U1", "K2")
@examples(usual=60, full=1500)
@given(plans)
def test_people_are_always_heard_and_in_order(plan: Plan) -> None:
    facts = history(plan)
    transcript = told(facts)
    blocks = [block for message in transcript.messages for block in message["content"]]  # type: ignore[union-attr]
    said = [block.get("text") for block in blocks] + list(transcript.extra)  # type: ignore[union-attr]
    heard = [text for text in said if str(text).startswith("Message from ")]
    sent = [f"Message from {fact.by}:\n{fact.text}" for fact in facts if isinstance(fact, f.MessageReceived)]
    assert heard == sent


@pytest.mark.spec("J7", "N1")
@examples(usual=40, full=800)
@given(plans, st.data())
def test_the_digest_tells_histories_apart(plan: Plan, data: st.DataObject) -> None:
    facts = history(plan)
    whole = told(facts)
    assert told(facts).digest == whole.digest
    at = data.draw(st.integers(1, len(facts) - 1))
    without = told([*facts[:at], *facts[at + 1 :]])
    before = told(facts[:at])
    heard = extend(before, facts[at]) != before
    assert (without.digest != whole.digest) == heard
    later = told([*facts[:at], replace(facts[at], at=facts[at].at + 1), *facts[at + 1 :]])
    assert (later.digest != whole.digest) == heard


@pytest.mark.spec("J7", "N1")
@pytest.mark.parametrize(
    "change", [{"role": ModelRole.CRITIC}, {"model": "n"}, {"tools_sha256": "u"}, {"max_tokens": 101}]
)
def test_everything_that_decides_the_answer_is_in_the_hash_of_a_request(change: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"role": ModelRole.ACTOR, "model": "m", "tools_sha256": "t", "max_tokens": 100}
    transcript, other = told([STARTED]), told([replace(STARTED, system="Be bad.")])
    assert transcript.request_sha256(**parts) != transcript.request_sha256(**parts | change)
    assert transcript.request_sha256(**parts) != other.request_sha256(**parts)


def results(*parts: tuple[str, bool, str]) -> list[f.Fact]:
    return [
        f.ToolCompleted(call_id=i, tool="look", result=ToolResult(ok=ok, content=text, error="" if ok else "boom"))
        for i, ok, text in parts
    ]


@pytest.mark.spec("C3", "C5", "U1")
def test_results_come_in_the_order_of_the_calls_and_before_anything_else() -> None:
    blocks = tuple({"type": "tool_use", "id": f"p{n}", "name": "look", "input": {}} for n in range(2))
    facts = [STARTED, REQUESTED, answered("look", "look", blocks=blocks)]
    facts += [f.MessageReceived(text="hurry", by="ana"), *results(("c1.1", False, "partly"))]
    waiting = told(facts)
    assert waiting.open_calls() == ("c1.0",)
    assert len(waiting.messages) == 2
    content: Any = told(facts + results(("c1.0", True, ""))).messages[-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text"]
    assert [block.get("tool_use_id") for block in content] == ["p0", "p1", None]
    assert [block.get("content") for block in content] == ["(no output)", "boom\npartly", None]
    assert [bool(block.get("is_error")) for block in content] == [False, True, False]


@pytest.mark.spec("C2", "C3")
def test_the_providers_own_blocks_are_kept_as_they_were() -> None:
    blocks = ({"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"})
    transcript = told([STARTED, REQUESTED, answered(blocks=blocks)])
    assert transcript.messages[-1] == {"role": "assistant", "content": list(blocks)}


@pytest.mark.spec("C3")
def test_an_answer_in_parts_becomes_one_message() -> None:
    world = World([says("first", stop=StopReason.PAUSE_TURN), says("second", ("look", {})), done()])
    assert world.drive() == "ended"
    messages = world.models.requests[-1].messages
    check_conversation(messages)
    assert [block.get("text") for block in messages[1]["content"]] == ["first", "second", None]  # type: ignore[union-attr]


@pytest.mark.spec("J2")
@pytest.mark.parametrize(
    ("verdict", "payload", "words"),
    [
        ("respond", {"outcome": "done"}, "confirmed that it took effect"),
        ("respond", {"outcome": "not_done"}, "did not take effect"),
        ("expire", {}, "nobody could say"),
        ("reject", {}, "nobody could say"),
    ],
)
def test_the_model_is_told_no_more_than_is_known(verdict: str, payload: dict[str, Any], words: str) -> None:
    decided = f.GateDecided(gate="g", kind="in_doubt", verdict=verdict, payload=payload, call_id="c1.0")
    content: Any = told([STARTED, REQUESTED, answered("look"), decided]).messages[-1]["content"]
    assert words in content[0]["content"]


@pytest.mark.spec("Q4")
def test_the_model_hears_about_edits_and_guidance() -> None:
    edited = f.GateDecided(gate="g", kind="tool_approval", verdict="approve_with_edits", call_id="c1.0")
    assert "changed the arguments" in told([STARTED, REQUESTED, answered("look"), edited]).extra[0]
    for kind in ("limit_reached", "loop_detected", "low_confidence"):
        guided = f.GateDecided(gate="g", kind=kind, verdict="respond", payload={"answer": "use B"})
        assert "A person says: use B" in str(told([STARTED, guided]).messages)
        assert "use B" not in str(told([STARTED, replace(guided, verdict="reject")]).messages)


def opening(**changes: Any) -> str:
    first = told([replace(STARTED, spec=replace(STARTED.spec, **changes))]).messages[0]
    return str(first["content"][0]["text"])  # type: ignore[index]


@pytest.mark.spec("U1")
def test_the_task_is_told_as_the_operator_gave_it() -> None:
    criteria = (Criterion("it is green", "make test"), Criterion("it reads well"))
    text = opening(goal="Mend it", criteria=(), constraints="no network", output_schema={"type": "object"})
    assert text.startswith("# Goal\nMend it")
    assert '{"type":"object"}' in text
    assert "no network" in text
    text = opening(criteria=criteria)
    assert "- it is green  (checked by: `make test`)\n- it reads well" in text


def test_what_the_model_never_hears_changes_nothing() -> None:
    transcript = told([STARTED])
    for fact in (REQUESTED, f.StepCompleted(step=1, success=True), f.LimitWarned(limit="max_steps", used=1, bound=1)):
        assert extend(transcript, fact) is transcript


def test_tools_by_name_are_part_of_the_request() -> None:
    tools = Tools({"look": str})
    request = told([STARTED]).request(role=ModelRole.ACTOR, model="m", tools=tuple(tools.specs()), max_tokens=9)
    assert (request.system, request.max_tokens, request.tools[0].name) == ("Be good.", 9, "look")
