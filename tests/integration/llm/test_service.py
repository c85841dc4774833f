"""The model service, whole conversations through it, and how early a call is seen."""

import ast
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loops.engine.ports import ModelError
from loops.engine.values import CallDetected, FailureKind, ModelEvent, ModelReply
from loops.llm.config import Provider
from loops.llm.registry import ModelService
from tests.wire import humaneval
from tests.wire.client import COUNT, config, continued, request, user
from tests.wire.say import Say
from tests.wire.server import WireServer


@pytest.mark.spec("S3")
def test_replies_are_priced_and_one_service_serves_many_event_loops() -> None:
    with WireServer(lambda seen: Say(text="Hello", usage={"input_tokens": 1000})) as server:
        service = ModelService({"m": config(server), "free": replace(config(server), name="free", model_id="own")})

        async def twice() -> tuple[ModelReply, ModelReply]:
            first, second = await asyncio.gather(
                service.call(request(), lambda event: None),
                service.call(replace(request(), model="free"), lambda event: None),
            )
            await service.close()
            return first, second

        for _ in range(2):
            priced, unknown = asyncio.run(twice())
            assert priced.usage.cost_microusd == 5000 + 25 * priced.usage.output_tokens
            assert unknown.usage.cost_microusd is None


def test_a_model_nobody_configured() -> None:
    with pytest.raises(ModelError, match="no model named 'm'") as caught:
        asyncio.run(ModelService({}).call(request(), lambda event: None))
    assert caught.value.kind is FailureKind.UNRECOVERABLE


def test_the_configured_thinking_is_the_default() -> None:
    with WireServer(lambda seen: Say(text="ok")) as server:
        service = ModelService({"m": config(server, thinking="adaptive")})

        async def once() -> None:
            await service.call(request(), lambda event: None)
            await service.close()

        asyncio.run(once())
    assert server.seen[0].body["thinking"] == {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_model_without_native_tools_is_asked_for_them_as_text(provider: Provider) -> None:
    with WireServer(lambda seen: Say(text="ok")) as server:
        service = ModelService({"m": config(server, provider, xml_tools=True)})

        async def once() -> None:
            await service.call(request(), lambda event: None)
            await service.close()

        asyncio.run(once())
    assert "tools" not in server.seen[0].body
    assert "<tool_call" in str(server.seen[0].body)


def test_importing_the_package_imports_no_sdk() -> None:
    code = (
        "import sys, loops.llm.registry, loops.llm.scripted.scripts, loops.llm.replay, loops.llm.prompts\n"
        "print([name for name in ('anthropic', 'openai', 'httpx2', 'genai_prices', 'django') if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_coding_task_is_played_over_the_wire(provider: Provider) -> None:
    task = "HumanEval/12"
    used: list[tuple[str, str]] = []
    with WireServer(humaneval.scenario) as server:
        service = ModelService({"m": config(server, provider)})

        async def run() -> None:
            asked = request(user(humaneval.goal(task)))
            for _ in range(5):
                reply = await service.call(asked, lambda event: None)
                used.extend((call.name, str(call.arguments.get("content", ""))) for call in reply.calls)
                asked = continued(asked, reply, ["done"] * len(reply.calls))
            await service.close()

        asyncio.run(run())
    assert server.faults == []
    assert [name for name, _ in used] == ["write_file", "run_tests", "write_file", "run_tests", "task_completion"]
    assert (used[0][1], used[2][1]) == (humaneval.wrong(task), humaneval.right(task))


def test_every_coding_task_fails_first_and_passes_then() -> None:
    for task in ("HumanEval/0", "HumanEval/12", "HumanEval/53", "HumanEval/163"):
        check = "\n".join(humaneval.workspace(task)[humaneval.TESTS].splitlines()[1:]) + "\ntest_solution()\n"
        for source, passes in ((humaneval.wrong(task), False), (humaneval.right(task), True)):
            done = subprocess.run([sys.executable, "-c", source + "\n" + check], capture_output=True)
            assert (done.returncode == 0) is passes, task
    for task in humaneval.problems():
        ast.parse(humaneval.wrong(task))


@pytest.mark.spec("V1")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_how_early_a_call_is_seen(provider: Provider, record_property: Callable[[str, object], None]) -> None:
    """Reported, not asserted: from the server's writing of the name to the event, over the loopback."""
    delays: list[float] = []
    said = Say(text="I count now. " * 20, calls=[("count", {"names": ["x" * 400]})])

    async def once(server: WireServer, service: ModelService) -> None:
        def heard(event: ModelEvent) -> None:
            if isinstance(event, CallDetected):
                delays.append((time.monotonic() - server.named_at) * 1000)

        await service.call(request(), heard)

    async def many() -> None:
        service = ModelService({"m": config(server, provider)})
        for _ in range(20):
            await once(server, service)
        await service.close()

    with WireServer(lambda seen: said, pace=0.001) as server:
        server.watch_for = f'"name": "{COUNT.name}"'.encode()
        asyncio.run(many())
    record_property("detection_ms_median", round(statistics.median(delays), 2))
    print(f"{provider}: name to event, median {statistics.median(delays):.2f} ms, worst {max(delays):.2f} ms")
    assert len(delays) == 20
