"""Circles in other words, seen with embeddings from a server on the wire; without one, circles as before (SPEC F2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentops.management.commands import monitor as command
from agentops.ops import checks
from loops.engine import facts as f
from loops.llm.embeddings import Embeddings
from loops.models import AuditEvent, Detection, ModelAddress, ModelConfig
from loops.monitor.embeddings import AGAIN_S, STEPS_A_LOOK, Meanings
from loops.monitor.watch import Monitor
from loops.storage.reader import history
from tests import fakes
from tests.integration.monitor.test_monitor import EAGER, begun, searching, working
from tests.integration.storage import owned
from tests.wire import embeddings as wire
from tests.wire.say import Raw
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("F2")]
WORDS = ("find port", "seek socket", "locate endpoint", "hunt listener")
ANSWERS = ("nothing there", "none there", "empty there", "missing there")
BLUE_WHALES = [1.0] * wire.DIMENSIONS


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(wire.serving(), key="secret-key-1") as started:
        yield started


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def paraphrasing(answers: Callable[[int], str] = ANSWERS.__getitem__) -> owned.Owned:
    """A run that asks for the same in ever other words and gets ``answers``; then it is at work still."""
    run, said = begun(), itertools.count()
    turns = [fakes.says("", ("look", {"for": words})) for words in WORDS]
    turns.append(fakes.says("", ("ask_question", {"question": "Where?"})))
    assert run.drive(turns, fakes.Tools({"look": lambda arguments: answers(next(said))})) == "gate:question"
    working(run.run)
    return run


def asking(server: WireServer, clock: Clock | None = None) -> Monitor:
    return Monitor(EAGER, Meanings(lambda: Embeddings(wire.config(server)), EAGER, clock or Clock()))


def said() -> list[Any]:
    return [event.detail["works"] for event in AuditEvent.objects.filter(kind="monitor.embeddings").order_by("id")]


def test_a_paraphrased_circle_is_seen_by_its_meaning_and_becomes_a_fact_that_names_the_measure(
    server: WireServer,
) -> None:
    run = paraphrasing()
    assert Monitor(EAGER).look() == 0  # word pairs see nothing in it
    assert asking(server).look() == 1
    detection = Detection.objects.get()
    assert (detection.kind, detection.method, detection.steps) == ("loop", "same_meaning", [1, 2, 3, 4])
    assert owned.own(run.run).drive([]) == "gate:question"
    [fact] = [fact for fact in history(run.run.pk) if isinstance(fact, f.LoopDetected)]
    assert (fact.method, fact.by) == ("same_meaning", "monitor")
    assert f"of embeddings by {wire.MODEL}, over steps 1-4" in fact.evidence
    assert server.faults == []


def test_the_default_says_its_measure_too() -> None:
    run = begun()
    searching(run)
    working(run.run)
    Monitor(EAGER).look()
    assert "of word pairs" in Detection.objects.get().evidence


def test_other_figures_are_other_results(server: WireServer) -> None:
    paraphrasing(lambda number: f"nothing there but {number}")
    assert asking(server).look() == 0


def test_a_text_is_asked_for_once(server: WireServer) -> None:
    paraphrasing(lambda number: "nothing there" if number % 2 else "none there")
    monitor = asking(server)
    assert (monitor.look(), monitor.look()) == (1, 0)
    apart, texts = [seen.body["input"] for seen in server.seen]
    assert len(apart) == 2
    assert len(texts) == len(set(texts)) == 4 + 2


def test_what_is_much_is_asked_for_bit_by_bit(server: WireServer) -> None:
    runs = STEPS_A_LOOK // 4 + 1
    for _ in range(runs):
        paraphrasing()
    monitor = asking(server)
    assert [monitor.look(), monitor.look(), monitor.look()] == [runs - 1, 1, 0]


BROKEN: dict[str, Callable[[Any], Raw]] = {
    "down": lambda seen: Raw.error(500, "api_error"),
    "lying": wire.serving(lambda texts: [[math.nan, *BLUE_WHALES[1:]] for _ in texts]),
    "short of vectors": wire.serving(lambda texts: wire.honest(texts)[:-1]),
    "telling nothing apart": wire.serving(lambda texts: [BLUE_WHALES for _ in texts]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_while_it_cannot_be_asked_circles_are_found_by_words_and_that_is_said_once(
    server: WireServer, settings: Any, name: str
) -> None:
    settings.MONITOR_EMBEDDINGS = "meanings"
    paraphrasing()
    run = begun()
    searching(run)
    working(run.run)
    server.handler, clock = BROKEN[name], Clock()
    monitor = asking(server, clock)
    assert monitor.look() == 1
    assert Detection.objects.get().method == "semantic"
    server.handler = wire.serving()
    paraphrasing()
    assert monitor.look() == 0
    assert len(server.seen) == 1  # left alone for a while
    assert said() == [False]
    assert shown().status == "warning"
    assert "by text similarity alone" in shown().said

    clock.now = AGAIN_S + 1
    assert monitor.look() == 1
    assert said() == [False, True]
    assert (shown().status, wire.MODEL in shown().said) == ("ok", True)


def shown() -> checks.Check:
    return next(check for check in checks.standing() if check.name == "embeddings")


def test_nobody_there_is_said_once_too(server: WireServer) -> None:
    paraphrasing()
    with WireServer(wire.serving()) as gone:
        pass
    clock = Clock()
    monitor = asking(gone, clock)
    for _ in range(3):
        assert monitor.look() == 0
        clock.now += AGAIN_S + 1
        paraphrasing()
    assert said() == [False]


def test_the_command_asks_the_model_that_is_configured_by_name(
    server: WireServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDINGS_KEY", "secret-key-1")
    settings.MONITOR_EMBEDDINGS = "meanings"
    ModelConfig.objects.create(
        name="meanings",
        provider="openai",
        model_id=wire.MODEL,
        base_url=server.openai_url,
        api_key_env="EMBEDDINGS_KEY",
    )
    ModelAddress.objects.create(key_name="EMBEDDINGS_KEY", origin=server.url)
    paraphrasing()
    assert Monitor(EAGER, Meanings(command._embedder, EAGER)).look() == 1


def test_without_embeddings_nothing_is_asked_and_nothing_said() -> None:
    paraphrasing()
    assert Monitor(EAGER).look() == 0
    assert said() == []
    assert (shown().status, shown().said) == ("ok", "Loop detection: text similarity, without embeddings")
