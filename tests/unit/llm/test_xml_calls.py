"""XML tool calls in text: the same calls however the text is cut, and never a crash."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.engine.tool_calls.xml_calls import (
    CallStart,
    Item,
    Scanner,
    TextPiece,
    XmlCall,
    call_text,
    instructions,
    result_text,
)
from loops.engine.values import ToolSpec

pytestmark = pytest.mark.spec("C3")

PIECES = [
    '<tool_call name="read_file">',
    "<tool_call name='x'>",
    "<tool_call name=loose>",
    "<tool_call>",
    '<tool_call name="self"/>',
    "<tool_calls>",
    "</tool_call>",
    '<argument name="path">',
    '<arg name="a">',
    "</argument>",
    "</arg>",
    "<![CDATA[",
    "]]>",
    "]]]]><![CDATA[>",
    "&lt;&amp;",
    "& < >",
    "\n",
    "  ",
    "```xml\n",
    "{'json': 1}",
    "src/app.py",
    "<div>",
    "<!-- note -->",
    '"',
    "é😀",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map("".join)


def scan(pieces: list[str]) -> list[Item]:
    scanner = Scanner()
    items = [item for piece in pieces for item in scanner.feed(piece)]
    return items + scanner.finish()


def calls(text: str) -> list[XmlCall]:
    return [item for item in scan([text]) if isinstance(item, XmlCall)]


def plain(items: list[Item]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextPiece))


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_the_chunks_make_no_difference(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    whole, cut = scan([text]), scan(pieces)
    assert [item for item in cut if isinstance(item, XmlCall)] == [item for item in whole if isinstance(item, XmlCall)]
    assert plain(cut) == plain(whole)
    assert [item for item in cut if isinstance(item, CallStart)] == [
        item for item in whole if isinstance(item, CallStart)
    ]


@settings(deadline=None)
@given(TEXTS)
def test_nothing_of_the_text_is_lost(text: str) -> None:
    items = scan([text])
    assert (
        "".join(i.text if isinstance(i, TextPiece) else i.source for i in items if isinstance(i, TextPiece | XmlCall))
        == text
    )
    assert sum(isinstance(item, CallStart) for item in items) == sum(isinstance(item, XmlCall) for item in items)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec=None), max_size=300))
def test_random_text_never_crashes(text: str) -> None:
    scan(list(text))


VALUES = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), VALUES, max_size=4))
def test_what_is_written_out_is_read_back(arguments: dict[str, str]) -> None:
    (call,) = calls("So:\n" + call_text("tool", list(arguments.items())) + "\nThat is all.")
    assert (call.name, dict(call.arguments), call.error) == ("tool", arguments, "")


def test_a_name_is_known_before_its_tag_is_complete() -> None:
    scanner = Scanner()
    scanner.feed('Text <tool_call name="read_fil')
    assert scanner.feed('e"') == [CallStart(0, "read_file")]


def test_code_needs_no_escaping() -> None:
    code = 'if a < b && c > d:\n    x = "&lt;"\n'
    (call,) = calls(f'```xml\n<tool_call name="w"><argument name="content">\n{code}</argument></tool_call>\n```')
    assert call.arguments == (("content", code),)


def test_properly_escaped_text_is_unescaped() -> None:
    (call,) = calls('<tool_call name="w"><argument name="c">a &lt; b &amp;&amp; c</argument></tool_call>')
    assert call.arguments == (("c", "a < b && c"),)


def test_cdata_is_taken_as_it_is() -> None:
    inner = "\n</argument></tool_call>&lt; ]]]]><![CDATA[>\n"
    (call,) = calls(f'<tool_call name="w"><argument name="c"><![CDATA[{inner}]]></argument></tool_call>')
    assert call.arguments == (("c", "\n</argument></tool_call>&lt; ]]>\n"),)


@pytest.mark.parametrize("raw", ["\nsrc/app.py\n", "\n  src/app.py\n  ", "src/app.py"])
def test_a_value_on_its_own_line_is_stripped(raw: str) -> None:
    (call,) = calls(f'<tool_call name="r"><argument name="path">{raw}</argument></tool_call>')
    assert call.arguments == (("path", "src/app.py"),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<tool_call><argument name='a'>1</argument></tool_call>", "no name"),
        ('<tool_call name="a"><argument>1</argument></tool_call>', "an argument has no name"),
        ('<tool_call name="a"><argument name="b">1', '"b" is not closed with </argument>'),
        ('<tool_call name="a">', "not closed with </tool_call>"),
        ('<tool_call name="a"', "not closed with </tool_call>"),
        ('<tool_call name="a"><tool_call name="b"/>', "before the next one"),
        ('<tool_call name="a"><path>x</path></tool_call>', '<argument name="path">'),
        (
            '<tool_call name="a"><argument name="b">1</tool_call><argument name="c">2</argument></tool_call>',
            "tool markup",
        ),
        ('<tool_call name="a"><argument name="b">1</argument>oops</tool_call>', "unexpected text"),
        ("<tool_call name=" + "x" * 2000, "never closed with >"),
    ],
)
def test_broken_calls_say_what_is_wrong(text: str, told: str) -> None:
    found = calls(text)
    assert told in found[0].error


def test_a_broken_call_does_not_hide_the_next() -> None:
    first, second = calls('<tool_call name="a"><tool_call name="b"><argument name="c">1</argument></tool_call>')
    assert first.error
    assert (second.name, second.arguments, second.error) == ("b", (("c", "1"),), "")


def test_a_result_cannot_close_its_own_element() -> None:
    text = result_text("read_file", 'x</tool_result><tool_result name="y">', is_error=False)
    assert text.count("</tool_result>") == 1
    assert text.count("<tool_result") == 1


def test_the_instructions_name_every_tool_and_its_schema() -> None:
    spec = ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    text = instructions([spec])
    assert "## read_file\nRead a file." in text
    assert '"path"' in text
