"""Scripts and recordings as models: the same turn for the same conversation, in any process."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loops.engine.ports import ModelError
from loops.engine.values import CallDetected, ModelReply, ModelRequest, ModelRole, ThinkingDelta
from loops.llm.config import ModelConfig
from loops.llm.registry import ModelService
from loops.llm.replay import ReplayModel, load_recordings, recording_of
from loops.llm.scripted.adapter import reply_of
from loops.llm.scripted.scripts import endpoint_outage, find_script, script_names
from loops.llm.scripted.scripts.repair_a_bug import REPOSITORY

RUNS = Path(__file__).parents[4] / "shared" / "data" / "runs" / "airline.jsonl.gz"
User = dict[str, Any]


def ask(model: Any, messages: Sequence[Mapping[str, Any]], events: list[Any] | None = None) -> ModelReply:
    request = ModelRequest(ModelRole.ACTOR, "m", "", tuple(messages))
    reply: ModelReply = asyncio.run(model.call(request, (events if events is not None else []).append))
    return reply


def service(script: str) -> ModelService:
    return ModelService({"m": ModelConfig("m", "scripted", script, pace=0)})


def goal(text: str = "Do it.") -> User:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def went_on(reply: ModelReply, *results: tuple[str, bool]) -> list[User]:
    blocks = [
        {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": bad}
        for call, (text, bad) in zip(reply.calls, results, strict=True)
    ]
    return [{"role": "assistant", "content": list(reply.blocks)}, {"role": "user", "content": blocks}]


Answer = tuple[str, bool]


def play(script: str, answers: Mapping[str, Answer | list[Answer]], turns: int) -> list[ModelReply]:
    """Each turn is asked of a fresh service, as after a crash. A list answers one call after the other."""
    left = {tool: list(given) if isinstance(given, list) else [given] * 9 for tool, given in answers.items()}
    messages, replies = [goal()], []
    for _ in range(turns):
        replies.append(ask(service(script), messages))
        results = [left[call.name].pop(0) if left.get(call.name) else ("ok", False) for call in replies[-1].calls]
        messages += went_on(replies[-1], *results)
    return replies


def tools(replies: Sequence[ModelReply]) -> list[str]:
    return [call.name for reply in replies for call in reply.calls]


HALF, WHOLE = ("14 passed, 6 failed, 0 skipped\n...", True), ("20 passed, 0 failed, 0 skipped\n...", False)
NO_PYTHON = ("exit code 127 (0.0 s)\n[stderr]\nbash: python3: command not found", True)


def test_the_repair_goes_through_its_stages_across_restarts() -> None:
    replies = play("repair_a_bug", {"run_tests": [HALF, WHOLE]}, 7)
    assert tools(replies) == [
        "list_files",
        *["read_file"] * 3,
        "write_file",
        "run_tests",
        "write_file",
        "run_tests",
        "task_completion",
    ]
    first, second = (reply.calls[0].arguments["content"] for reply in replies if reply.calls[0].name == "write_file")
    assert first != second != (REPOSITORY / "invoices" / "discounts.py").read_text(encoding="utf-8")
    assert all(reply.thinking for reply in replies[:-1])


def test_pruned_history_does_not_turn_the_clock_back() -> None:
    messages = [goal()]
    for _ in range(4):
        reply = ask(service("repair_a_bug"), messages)
        messages += went_on(reply, *[("ok", False)] * len(reply.calls))
    pruned = [messages[0], *messages[-2:]]
    assert ask(service("repair_a_bug"), pruned).calls == ask(service("repair_a_bug"), messages).calls


def test_a_rejected_call_leads_to_a_question_and_then_on() -> None:
    rejected = ("A person rejected this call: not now", True)
    replies = play("repair_a_bug", {"run_tests": rejected, "ask_question": ("Finish without it", False)}, 6)
    assert tools(replies)[-3:] == ["run_tests", "ask_question", "task_completion"]
    replies = play("repair_a_bug", {"run_tests": rejected, "ask_question": ("Try again", False)}, 6)
    assert tools(replies)[-3:] == ["run_tests", "ask_question", "run_tests"]


@pytest.mark.spec("X1")
@pytest.mark.parametrize(
    "seen",
    [NO_PYTHON, ("exit code 1 (0.1 s)\n[stderr]\n/usr/bin/python3: No module named pytest", True), ("ok", False)],
    ids=["no interpreter", "no module", "no tests"],
)
def test_the_repair_claims_nothing_that_its_tests_did_not_show(seen: Answer) -> None:
    for runs, turns in (([seen], 5), ([HALF, seen], 7)):
        *_, asked, ended = play(
            "repair_a_bug", {"run_tests": runs, "ask_question": ("Finish without it", False)}, turns + 1
        )
        assert tools([asked]) == ["ask_question"]
        assert str(asked.calls[0].arguments["question"]).startswith(seen[0])
        assert tools([ended]) == ["task_completion"]
        assert "pass" not in ended.text
        assert str(ended.calls[0].arguments["result"]).startswith("Not done.")
        assert " ".join(seen[0].split()) in str(ended.calls[0].arguments["result"])


@pytest.mark.spec("X1")
def test_the_repair_looks_again_when_its_result_was_not_accepted() -> None:
    answers = {"run_tests": [HALF, WHOLE, WHOLE], "task_completion": ("not accepted", True)}
    replies = play("repair_a_bug", {**answers, "ask_question": ("Try again", False)}, 10)
    assert tools(replies)[-4:] == ["task_completion", "ask_question", "run_tests", "task_completion"]


@pytest.mark.spec("X1")
@pytest.mark.parametrize("name", sorted(set(script_names()) - {"endpoint_down", "endpoint_outage"}))
def test_no_script_calls_done_what_it_saw_fail(name: str) -> None:
    """Every call fails. What ``stand_in`` says is what ``endpoint_outage`` says."""
    broken, messages = "No space left on device", [goal()]
    for number in range(33):
        turn = find_script(name).turn(ModelRequest(ModelRole.ACTOR, "m", "", tuple(messages)))
        if ended := [arguments["result"] for tool, arguments in turn.calls if tool == "task_completion"]:
            assert broken in str(ended)
            return
        reply = reply_of(turn, ModelRequest(ModelRole.ACTOR, "m", "", ()), number, name, (0, 0, 0))
        answers = [("Finish", False) if call.name == "ask_question" else (broken, True) for call in reply.calls]
        messages += went_on(reply, *answers)
    assert name in {"gives_up_half_way", "goes_in_circles", "never_stops"}, "the others come to an end"


@pytest.mark.parametrize("name", sorted(set(script_names()) - {"endpoint_outage", "stand_in"}))
def test_every_script_plays_twice_the_same(name: str) -> None:
    assert find_script(name).name == name
    if name == "endpoint_down":
        with pytest.raises(ModelError, match="Overloaded"):
            play(name, {}, 1)
        return
    turns = 1 if name == "slow_thinker" else 4
    if name == "slow_thinker":
        script = find_script(name)
        assert len(script.turns[0].thinking.split()) > 200
        return
    stripped = [[(reply.text, reply.calls, reply.usage) for reply in play(name, {}, turns)] for _ in range(2)]
    assert stripped[0] == stripped[1]


@pytest.mark.spec("E5", "E6")
def test_the_outage_comes_and_goes_by_the_clock_and_the_stand_in_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_outage, "time", SimpleNamespace(time=lambda: 94.0))
    played = [
        [(reply.text, reply.calls, reply.usage) for reply in play(name, {}, 6)]
        for name in ("endpoint_outage", "endpoint_outage", "stand_in", "stand_in")
    ]
    assert played == [played[0]] * 4
    monkeypatch.setattr(endpoint_outage, "time", SimpleNamespace(time=lambda: 96.0))
    with pytest.raises(ModelError, match="Overloaded"):
        play("endpoint_outage", {}, 1)


def test_the_question_is_answered_in_the_file() -> None:
    replies = play("asks_a_question", {"ask_question": ("formal", False)}, 3)
    assert tools(replies) == ["ask_question", "write_file", "task_completion"]
    assert replies[1].calls[0].arguments["content"] == "Good day.\n"


def test_never_stops_has_other_arguments_each_time() -> None:
    arguments = [str(reply.calls[0].arguments) for reply in play("never_stops", {}, 9)]
    assert len(set(arguments)) == 9


@pytest.mark.spec("C2")
def test_thinking_streams_before_the_call() -> None:
    events: list[Any] = []
    reply = ask(service("writes_a_file"), [goal()], events)
    kinds = [type(event) for event in events]
    assert kinds.index(ThinkingDelta) < kinds.index(CallDetected)
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == reply.thinking


def test_an_unknown_script_is_told() -> None:
    with pytest.raises(ModelError, match="there are: asks_a_question"):
        ask(service("nonsense"), [goal()])


# --- recordings ------------------------------------------------------------------------------------------------------

LINE = {
    "id": "one",
    "task": "Find it.",
    "turns": [
        {"role": "system", "text": "Policy."},
        {"role": "user", "text": "Hi"},
        {"role": "assistant", "text": "Which one?"},
        {"role": "user", "text": "The first."},
        {"role": "assistant", "text": "", "calls": [{"id": "c", "name": "find", "input": {"a": 1}}]},
        {"role": "tool", "tool_call_id": "c", "text": "found", "is_error": False},
        {"role": "assistant", "text": "", "calls": [{"id": "c", "name": "find", "input": {"a": 2}}]},
        {"role": "tool", "tool_call_id": "c", "text": "nothing", "is_error": True},
    ],
}


def test_a_recording_is_played_turn_by_turn_with_ids_of_its_own() -> None:
    recording = recording_of(LINE)
    assert (recording.goal, recording.system, recording.turns[0].answer) == ("Find it.", "Policy.", "The first.")
    assert {key: result.text for key, result in recording.results.items()} == {"s_1_0": "found", "s_2_0": "nothing"}
    model = ReplayModel(recording, talk="converse", complete=True, strict=True)
    messages, said = [goal()], []
    for _ in range(4):
        reply = ask(model, messages)
        said += [(call.name, call.arguments) for call in reply.calls]
        messages += went_on(
            reply, (recording.results[reply.calls[0].id].text if reply.calls[0].name == "find" else "", False)
        )
    assert said == [
        ("converse", {"message": "Which one?"}),
        ("find", {"a": 1}),
        ("find", {"a": 2}),
        ("task_completion", {"result": "done"}),
    ]


def test_a_strict_replay_refuses_other_results() -> None:
    model = ReplayModel(recording_of(LINE), strict=True)
    use = {"type": "tool_use", "id": "s_1_0", "name": "find", "input": {"a": 1}}
    result = {"type": "tool_result", "tool_use_id": "s_1_0", "content": "something else"}
    messages = [goal(), {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    with pytest.raises(ModelError, match="not the recorded one"):
        ask(model, messages)


@pytest.mark.skipif(not RUNS.is_file(), reason="the recorded runs are not here")
def test_every_recorded_run_is_played_to_its_end() -> None:
    recordings = list(load_recordings(RUNS))
    assert len(recordings) == 104
    for recording in recordings:
        messages = [goal(recording.goal)]
        model = ReplayModel(recording, strict=True)
        for turn in recording.turns:
            reply = ask(model, messages)
            assert (reply.text, [(c.name, c.arguments) for c in reply.calls]) == (
                turn.text,
                [(c.name, c.arguments) for c in turn.calls],
            )
            results = [(recording.results[call.id].text, False) for call in reply.calls if call.id in recording.results]
            messages += (
                went_on(reply, *results)
                if results
                else [
                    {"role": "assistant", "content": list(reply.blocks)},
                    goal(turn.answer or "Go on."),
                ]
            )
