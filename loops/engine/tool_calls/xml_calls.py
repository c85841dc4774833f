"""Tool calls written as XML in a model's text, for models without native tool use (SPEC C3).

The format, as ``instructions`` tells it to the model::

    <tool_call name="read_file">
    <argument name="path">src/app.py</argument>
    </tool_call>

Rules, each of them kept by ``Scanner`` whatever the sizes of the pieces in which the text arrives:

1. Everything outside ``<tool_call ...>...</tool_call>`` is plain text. Code fences round a call do no harm.
2. A call is known as soon as its name attribute is complete, before the tag is.
3. An argument is raw text up to ``</argument>``; ``<`` and ``&`` need no escaping. Entities are decoded only when the
   argument is properly escaped, that is when it holds no bare ``<`` or ``&``. CDATA is taken as it is.
4. A line break after the opening tag and the indentation of the closing tag do not belong to the argument; a value
   on a line of its own is stripped. CDATA keeps every character.
5. A call that is not well formed is still a call: it carries an ``error`` that tells the model what to write instead.
   An argument that swallowed other tool markup is refused, because its text can't be trusted.

The scanner knows no schemas: it gives strings, and whoever holds the schemas decides what is JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape, unescape

from loops.engine import prompts
from loops.engine.text.truncation import quoted
from loops.engine.values import ToolSpec

MAX_TAG = 1000
"""Longest opening tag; anything longer is a broken call."""
HELD = 256
"""How much of the end of an argument may still turn out to be its closing tag."""

_OPEN_CALL = "<tool_call"
_NAME_QUOTED = re.compile(r"""\sname\s*=\s*(?:"([^">\n]*)"|'([^'>\n]*)')""")
_NAME_LOOSE = re.compile(r"""name\s*=\s*["']?([^"'>\s/]+)""")
_INSIDE = re.compile(r"\s*<(/?)([A-Za-z_][\w.-]*)|\s*<!--")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});")
_CDATA = re.compile(r"\s*<!\[CDATA\[")
_CDATA_START = "<![CDATA["
_MARKUP = re.compile(r"</?(?:tool_call|argument)\b")
_ARGUMENT_TAGS = ("argument", "arg", "parameter")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Plain text outside every call."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call's name has arrived; the rest of it has not."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentPiece:
    """More of an argument's raw text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class XmlCall:
    """A whole call. ``source`` is its exact text; ``cut`` says that the text ended in the middle of it."""

    index: int
    name: str
    arguments: tuple[tuple[str, str], ...]
    source: str
    error: str = ""
    cut: bool = False
    body: str = ""
    """The text inside a call that has no <argument> at all: some models put a JSON object there."""


Item = TextPiece | CallStart | ArgumentPiece | XmlCall


class Scanner:
    """Feed text as it arrives, then ``finish``; items come out as early as they are certain."""

    def __init__(self, first_index: int = 0) -> None:
        self._index = first_index
        self._buffer = ""
        self._out: list[Item] = []
        self._state: Callable[[], bool] = self._text
        self._ended = False
        self._reset()

    def _reset(self) -> None:
        self._source: list[str] = []
        self._name = ""
        self._named = False
        self._arguments: list[tuple[str, str]] = []
        self._argument = ""
        self._tag = "argument"
        self._value: list[str] = []
        self._cdata: bool | None = None
        self._error = ""
        self._body: list[str] = []

    def feed(self, text: str) -> list[Item]:
        """What has become certain with this piece."""
        self._buffer += text
        while self._state():
            pass
        out, self._out = self._out, []
        return out

    def finish(self) -> list[Item]:
        """The rest, when no more text will come: an open call is now a cut one."""
        self._ended = True
        out = self.feed("")
        if self._state == self._text:
            if self._buffer:
                out.append(TextPiece(self._take(len(self._buffer))))
            return out
        self._take(len(self._buffer))
        self._error = self._error or self._unfinished()
        self._close(cut=True)
        return out + self._out

    @property
    def next_index(self) -> int:
        """The index the next call will have."""
        return self._index

    # Each state looks at the buffer, consumes what is certain, and says whether looking again can help.

    def _text(self) -> bool:
        at = self._buffer.find(_OPEN_CALL)
        if at < 0:
            keep = _partial_suffix(self._buffer, _OPEN_CALL)
            self._say(len(self._buffer) - keep)
            return False
        self._say(at)
        after = self._buffer[len(_OPEN_CALL) : len(_OPEN_CALL) + 1]
        if not after:
            return False
        if not (after.isspace() or after in "/>"):
            self._say(len(_OPEN_CALL))
            return True
        self._state = self._opening
        return True

    def _say(self, length: int) -> None:
        if length > 0:
            self._out.append(TextPiece(self._take(length)))

    def _opening(self) -> bool:
        end = self._buffer.find(">", 0, MAX_TAG)
        tag = self._buffer[: end + 1] if end >= 0 else self._buffer[:MAX_TAG]
        if not self._named:
            self._find_name(tag, complete=end >= 0)
        if end < 0:
            if len(self._buffer) < MAX_TAG:
                return False
            self._error = "the <tool_call ...> tag is never closed with >"
            end = len(_OPEN_CALL)
        if not self._named:
            self._start("")
        taken = self._take(end + 1)
        if taken.endswith("/>"):
            self._close()
        else:
            self._state = self._inside
        return True

    def _find_name(self, tag: str, *, complete: bool) -> None:
        match = _NAME_QUOTED.search(tag, len(_OPEN_CALL))
        if match is None and complete:
            match = _NAME_LOOSE.search(tag, len(_OPEN_CALL))
        if match is not None:
            self._start(next(group for group in match.groups() if group is not None).strip())

    def _start(self, name: str) -> None:
        self._name, self._named = name, True
        if not name:
            self._error = self._error or 'the call has no name; write <tool_call name="the_tool">'
        self._out.append(CallStart(self._index, name))

    def _inside(self) -> bool:
        at = self._buffer.find("<")
        if at < 0:
            self._junk(len(self._buffer))
            return False
        self._junk(at)
        end = self._buffer.find(">", 0, MAX_TAG)
        if end < 0:
            if len(self._buffer) >= MAX_TAG:
                self._junk(1)
                return True
            return False
        match = _INSIDE.match(self._buffer)
        slash, tag = (match.group(1) or "", (match.group(2) or "").lower()) if match else ("", "")
        if slash and tag == "tool_call":
            self._take(end + 1)
            self._close()
        elif tag == "tool_call":
            self._error = self._error or "the call is not closed with </tool_call> before the next one"
            self._close()
        elif not slash and tag in _ARGUMENT_TAGS:
            self._open_argument(tag, end)
        else:
            self._stray(match is not None, tag, slash, end)
        return True

    def _stray(self, known: bool, tag: str, slash: str, end: int) -> None:
        if not known:
            self._junk(1)
            return
        if tag and not slash and not self._error:
            self._error = f'unexpected <{tag}> in the call; write <argument name="{tag}">...</argument>'
        self._junk(end + 1)

    def _junk(self, length: int) -> None:
        self._body.append(self._take(length))

    def _open_argument(self, tag: str, end: int) -> None:
        opening = self._take(end + 1)
        match = _NAME_QUOTED.search(opening) or _NAME_LOOSE.search(opening)
        self._tag = tag
        self._argument = next(g for g in match.groups() if g is not None).strip() if match else ""
        if not self._argument:
            self._error = self._error or 'an argument has no name; write <argument name="...">'
        if opening.endswith("/>"):
            self._store("")
            return
        self._value, self._cdata = [], None
        self._state = self._in_argument

    def _in_argument(self) -> bool:
        if self._cdata is None and not self._decide_cdata():
            return False
        close = f"</{self._tag}\\s{{0,50}}>"
        pattern = rf"\]\]>\s{{0,100}}{close}" if self._cdata else close
        match = re.search(pattern, self._buffer)
        if match is None:
            self._grow(len(self._buffer) - _held(self._buffer))
            return False
        self._grow(match.end() if self._cdata else match.start())
        value = "".join(self._value)
        if not self._cdata:
            self._take(match.end() - match.start())
        self._store(_cdata_value(value, self._tag) if self._cdata else self._plain_value(value))
        return True

    def _decide_cdata(self) -> bool:
        """Whether the value is CDATA is certain once its first characters other than blanks are here."""
        start = self._buffer.lstrip()
        if not self._ended and len(start) < len(_CDATA_START) and _CDATA_START.startswith(start):
            return False
        self._cdata = _CDATA.match(self._buffer) is not None
        return True

    def _grow(self, length: int) -> None:
        if length > 0:
            piece = self._take(length)
            self._value.append(piece)
            self._out.append(ArgumentPiece(self._index, piece))

    def _plain_value(self, raw: str) -> str:
        if _MARKUP.search(raw):
            self._error = self._error or (
                f'argument "{self._argument}" contains tool markup; close it with </argument>, or use CDATA'
            )
        bare = "<" in raw or "&" in _ENTITY.sub("", raw)
        return _trimmed(raw if bare else unescape(raw))

    def _store(self, value: str) -> None:
        if any(name == self._argument for name, _ in self._arguments):
            self._error = self._error or f'argument "{self._argument}" is given twice'
        self._arguments.append((self._argument, value))
        self._argument = ""
        self._state = self._inside

    def _unfinished(self) -> str:
        if self._argument:
            return f'argument "{self._argument}" is not closed with </{self._tag}>'
        return "the call is not closed with </tool_call>"

    def _close(self, *, cut: bool = False) -> None:
        if not self._named:
            self._start("")
        body = "".join(self._body).strip()
        if self._arguments and body and not self._error:
            self._error = f"unexpected text between the arguments: {quoted(body, 60)}"
        arguments, source = tuple(self._arguments), "".join(self._source)
        self._out.append(XmlCall(self._index, self._name, arguments, source, self._error, cut, body))
        self._index += 1
        self._reset()
        self._state = self._text

    def _take(self, length: int) -> str:
        taken, self._buffer = self._buffer[:length], self._buffer[length:]
        if self._state != self._text:
            self._source.append(taken)
        return taken


def instructions(specs: Sequence[ToolSpec]) -> str:
    """The part of the system prompt that teaches the format and lists the tools."""
    return prompts.fill("xml_tools", tools="".join(f"\n{_described(spec)}\n" for spec in specs))


def _described(spec: ToolSpec) -> str:
    schema = json.dumps(spec.parameters, ensure_ascii=False, sort_keys=True)
    return prompts.fill("xml_tool", tool=spec.name, description=spec.description, schema=schema)


def result_text(name: str, content: str, *, is_error: bool) -> str:
    """A tool's result as the model reads it. The content can't close the element by itself."""
    safe = re.sub(r"<(/?tool_result)", r"&lt;\1", content)
    status = "error" if is_error else "ok"
    return f'<tool_result name="{escape(name)}" status="{status}">\n{safe}\n</tool_result>'


def call_text(name: str, arguments: Sequence[tuple[str, str]]) -> str:
    """A call in this form, for history that was made with native tool use."""
    lines = [f'<tool_call name="{escape(name)}">']
    for key, value in arguments:
        plain = not re.search(r"[<&]|^\s|\s$", value)
        inner = value if plain else "<![CDATA[" + value.replace("]]>", "]]]]><![CDATA[>") + "]]>"
        lines.append(f'<argument name="{escape(key)}">{inner}</argument>')
    return "\n".join([*lines, "</tool_call>"])


def _partial_suffix(text: str, wanted: str) -> int:
    """Length of the longest end of the text that is a beginning of what is wanted."""
    for length in range(min(len(wanted) - 1, len(text)), 0, -1):
        if text.endswith(wanted[:length]):
            return length
    return 0


def _held(buffer: str) -> int:
    tail = buffer[-HELD:]
    positions = [at for at in (tail.find("<"), tail.find("]")) if at >= 0]
    return len(tail) - min(positions) if positions else 0


def _cdata_value(raw: str, tag: str) -> str:
    inner = raw[raw.index(_CDATA_START) + len(_CDATA_START) :]
    inner = re.sub(rf"\]\]>\s{{0,100}}</{tag}\s{{0,50}}>$", "", inner)
    return inner.replace("]]]]><![CDATA[>", "]]>")


def _trimmed(value: str) -> str:
    if not value.lstrip(" \t").startswith(("\n", "\r\n")):
        return value
    value = value.lstrip(" \t").removeprefix("\r").removeprefix("\n")
    value = re.sub(r"(\n)[ \t]+$", r"\1", value)
    return value if "\n" in value.rstrip("\r\n \t") else value.strip()
