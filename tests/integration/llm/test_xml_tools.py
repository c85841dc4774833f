"""Models without native tool use, over both providers: the rest of the system sees calls like any other."""

from dataclasses import replace

import pytest

from loops.engine.values import CallDetected, ModelEvent, StopReason, TextDelta
from loops.llm.config import Provider
from tests.wire.client import answer, ask, config, continued, request
from tests.wire.say import Say
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("C3")

TEXT = """I read it.
<tool_call name="read_file">
<argument name="path">a & b.py</argument>
</tool_call>
<tool_call name="count">
<argument name="upto">3</argument>
<argument name="names">["x", "y"]</argument>
</tool_call>"""


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_calls_in_text(provider: Provider) -> None:
    events: list[ModelEvent] = []
    with WireServer(lambda seen: Say(text=TEXT)) as server:
        asked = request(xml_tools=True)
        reply = ask(config(server, provider), asked, events.append)
        ask(config(server, provider), continued(asked, reply, ["<b>text</b>", "3"]))
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("xml_0_0", "read_file", {"path": "a & b.py"}),
        ("xml_0_1", "count", {"upto": 3, "names": ["x", "y"]}),
    ]
    assert reply.stop is StopReason.TOOL_USE
    assert reply.text.strip() == "I read it."
    assert [event.name for event in events if isinstance(event, CallDetected)] == ["read_file", "count"]
    assert "tool_call" not in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert server.faults == []
    first, second = server.seen
    assert "tools" not in first.body
    assert '<tool_call name="tool_name">' in str(first.body)
    spoken = next(message["content"] for message in second.messages if message["role"] == "assistant")
    assert (spoken if isinstance(spoken, str) else spoken[0]["text"]) == TEXT, "the model's own words, exactly"
    assert '<tool_result name=\\"read_file\\" status=\\"ok\\">' in second.said


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_call_cut_by_the_limit_is_not_executed(provider: Provider) -> None:
    stop = "max_tokens" if provider == "anthropic" else "length"
    first, second = answer(lambda seen: Say(text=TEXT[:-30], stop=stop), provider, request(xml_tools=True)).calls
    assert (first.error, first.arguments) == ("", {"path": "a & b.py"})
    assert (second.error, second.arguments) == ("cut off by max_tokens; not executed", {})


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("<argument name='upto'>many</argument>", 'argument "upto" must be JSON here'),
        ("<argument name='upto'>1</argument><argument name='upto'>2</argument>", "given twice"),
        ("<upto>1</upto>", 'write <argument name="upto">'),
        ('{"upto": }', "not valid JSON"),
    ],
)
def test_malformed_calls_tell_the_model_what_to_write(body: str, told: str) -> None:
    text = f'<tool_call name="count">{body}</tool_call>'
    (call,) = answer(lambda seen: Say(text=text), asked=request(xml_tools=True)).calls
    assert told in call.error
    assert call.arguments == {}


def test_a_json_object_in_the_call_is_accepted() -> None:
    text = '<tool_call name="count">{"upto": 4}</tool_call>'
    (call,) = answer(lambda seen: Say(text=text), asked=request(xml_tools=True)).calls
    assert (call.arguments, call.error) == ({"upto": 4}, "")


def test_native_history_is_written_out_for_a_model_without_tools() -> None:
    with WireServer(lambda seen: Say(calls=[("read_file", {"path": "<a>"})])) as server:
        asked = request()
        reply = ask(config(server), asked)
        ask(config(server), replace(continued(asked, reply, ["text"]), xml_tools=True))
    assert server.seen[1].messages[1]["content"][0]["text"] == (
        '<tool_call name="read_file">\n<argument name="path"><![CDATA[<a>]]></argument>\n</tool_call>'
    )
