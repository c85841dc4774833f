"""A provider names its window when it refuses a request: the run learns it and goes on (SPEC E6, U1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loops.driver import Ports
from loops.engine import facts as f
from loops.engine.context_window import budget
from loops.engine.encoding.canonical import encode
from loops.engine.encoding.codec import to_plain
from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelReply, ModelRequest, Usage
from tests.fakes import Tools, World, done, says

pytestmark = pytest.mark.spec("E6", "U1")
WINDOW, BYTES_PER_TOKEN = 4096, 3.5


def length(request: ModelRequest) -> int:
    said = [request.system, [to_plain(spec) for spec in request.tools], list(request.messages)]
    return int(len(encode(said)) / BYTES_PER_TOKEN)


def server(answers: Callable[[int], ModelReply], window: int = WINDOW, *, names: bool = True) -> Callable[..., Any]:
    """Refuses what is longer than its window, and names it in its error."""
    asked = iter(range(1000))

    def answer(request: ModelRequest) -> ModelReply | ModelError:
        size = length(request)
        if size > window:
            words = f"HTTP 400: request ({size} tokens) exceeds the available context size ({window} tokens)"
            error = ModelError(words, kind=FailureKind.SYSTEMATIC, code="prompt_too_long", status=400)
            error.window, error.counted = (window, size) if names else (0, 0)
            return error
        return replace(answers(next(asked)), usage=Usage(input_tokens=size, output_tokens=20))

    return answer


class Small(World):
    """``kept`` are the windows that were kept for other runs."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.kept: list[tuple[str, int]] = []

    def ports(self) -> Ports:
        learnt = lambda model, window: self.kept.append((model, window))  # noqa: E731
        return replace(super().ports(), learnt=learnt, short_prompt=lambda spec: ("Be short.", "react_small@1"))


def long_tools() -> Tools:
    return Tools({"look": lambda arguments: " ".join(f"{arguments['at']}.{line}" for line in range(300))})


def test_the_run_makes_room_and_goes_on() -> None:
    answers = lambda number: says("I look", ("look", {"at": str(number)})) if number < 12 else done()  # noqa: E731
    world = Small(server(answers), tools=long_tools(), windows={"scripted": 200_000})
    assert world.drive() == "ended"
    assert world.state.end_reason == "no_criteria"
    failed = world.journal.of(f.ModelFailed)
    assert [(fact.window, fact.counted > WINDOW) for fact in failed] == [(WINDOW, True)]
    assert budget.window(world.state) == WINDOW
    assert world.kept == [("scripted", WINDOW)]
    assert world.journal.of(f.BackoffStarted) == []
    assert len(world.journal.of(f.ContextPruned)) > 1, "later prunings came before the refusal"


def test_prompt_and_tools_take_their_short_form_when_the_window_is_small() -> None:
    answers = lambda number: says("I look", ("look", {"at": str(number)})) if number < 12 else done()  # noqa: E731
    world = Small(server(answers), tools=long_tools(), windows={"scripted": 200_000})
    world.drive()
    (short,) = world.journal.of(f.PromptShortened)
    assert (short.system, short.prompt_version, short.window) == ("Be short.", "react_small@1", WINDOW)
    assert world.models.requests[0].system == "Be good."
    assert world.models.requests[-1].system == "Be short."


def test_what_can_never_fit_says_so_and_by_how_much() -> None:
    world = Small(server(lambda number: done(), 1024), windows={"scripted": 200_000}, goal="Do it. " * 1000)
    assert world.drive() == "ended"
    assert world.state.end_reason == "context_exceeded"
    (ended,) = world.journal.of(f.RunEnded)
    told = str(ended.report["diagnosis"])
    assert "the window of scripted is 1,024" in told
    assert "too many" in told
    assert len(world.journal.of(f.ModelRequested)) == 1, "nothing is sent again that cannot fit"


def test_what_a_known_small_window_can_never_hold_is_not_sent() -> None:
    """Some servers would cut it without a word."""
    world = Small(server(lambda number: done(), 1024), windows={"scripted": 1024}, goal="Do it. " * 1000)
    assert world.drive() == "ended"
    assert world.state.end_reason == "context_exceeded"
    assert world.journal.of(f.ModelRequested) == []


def test_a_request_that_fits_needs_only_a_smaller_answer() -> None:
    """The server counts the room for the answer too: nothing is left out."""
    refused = ModelError("too large", kind=FailureKind.SYSTEMATIC, code="prompt_too_long", status=400)
    refused.window, refused.counted = 20_000, 100
    answers = iter([refused, done()])
    world = Small(lambda request: next(answers), windows={"scripted": 200_000})
    assert world.drive() == "ended"
    assert world.state.end_reason == "no_criteria"
    assert world.journal.of(f.ContextPruned) == []
    assert world.models.requests[-1].max_tokens <= 20_000 - 100


def test_a_server_that_names_another_window_each_time_ends_the_run() -> None:
    def refuse(request: ModelRequest) -> ModelError:
        assert len(world.models.requests) <= 10, "it is asked for ever"
        error = ModelError("no", kind=FailureKind.SYSTEMATIC, code="prompt_too_long", status=400)
        error.window, error.counted = 100_000 - len(world.models.requests), 100_001
        return error

    world = Small(refuse, windows={"scripted": 200_000})
    assert world.drive() == "ended"
    assert world.state.end_reason == "context_exceeded"
    assert len(world.models.requests) <= 4
