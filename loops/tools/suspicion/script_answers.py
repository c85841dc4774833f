"""Answers of tests in JavaScript and TypeScript, and those that code holds: written the same way wherever they are."""

from __future__ import annotations

from collections.abc import Iterator

from loops.tools.suspicion.javascript import (
    CLOSE,
    LONGEST,
    OPEN,
    STRICT_NAMES,
    Word,
    arguments,
    closings,
    is_judged,
    literals,
    marks,
    words_of,
)
from loops.tools.suspicion.known_answers import SEVERAL

_BACK = 40
"""Words before an answer in which what it answers is looked for."""
_VALUES = frozenset({"true", "false", "null", "undefined", "NaN"})
Held = tuple[str, str, int]
"""(inputs, output, line)."""


def answers_of_tests(words: list[Word]) -> set[tuple[str, str]]:
    """(inputs, output) of ``expect(f(1)).toBe(2)``, ``assert.equal(f(1), 2)`` and rows of a table."""
    found, ends, texts = set[tuple[str, str]](), closings(words), [word.text for word in words]
    for at, word in enumerate(words):
        if (
            word.text == "["
            and at in ends
            and (texts[max(at - 2, 0) : at] == ["each", "("] or _at(texts, at - 1) == "=")
        ):
            found |= set(_of_table(texts[at + 1 : min(ends[at], at + LONGEST)]))
        if at + 1 not in ends or words[at + 1].text != "(":
            continue
        inner = words[at + 2 : min(ends[at + 1], at + LONGEST)]
        if word.text == "expect":
            names, opening = marks(words, ends[at + 1])
            if names and names[-1] in STRICT_NAMES and opening in ends:
                value = texts[opening + 1 : min(ends[opening], opening + LONGEST)]
                found |= set(_answer([one.text for one in inner], value))
        elif word.text in STRICT_NAMES and is_judged(words, at):
            found |= set(_answer(*arguments(inner)))
    return found


def _answer(call: list[str], value: list[str]) -> Iterator[tuple[str, str]]:
    if call[-1:] != [")"] or "(" not in call:
        return
    inputs, output = plain(call[call.index("(") + 1 : -1]), plain(value)
    if inputs and output:
        yield inputs, output
    short, one = literals(call), literals(value)
    if short and len(one) == 1:
        yield ", ".join(map(_same, short)), _same(one[0])


def _of_table(inside: list[str]) -> Iterator[tuple[str, str]]:
    """``[input, another, output]`` of each row."""
    rows = [split(row[1:-1]) for row in split(inside) if (row[0], row[-1]) == ("[", "]")]
    for row in rows if len(rows) >= SEVERAL else []:
        if len(row) > 1 and (inputs := plain(_joined(row[:-1]))) and (output := plain(row[-1])):
            yield inputs, output


def held_answers(words: list[Word]) -> list[Held]:
    """Of ``if (a === 1 && b === 2) return 3``, ``case 1: return 2``, ``a === 1 ? 2 : 3``, ``{a: 1}``, ``["a", 1]``;
    a key may be written as ``'["a"]'``."""
    found, ends, texts, until = list[Held](), closings(words), [word.text for word in words], 0
    for at, word in enumerate(words):
        if word.text in ("return", "?", ":"):
            value = _value(texts, at + 1, ends)
            output, until = plain(value), max(until, at + len(value))
            inputs = _keys(texts, at) if word.text == ":" else _asked(texts, at)
            found += [(one, output, word.line) for one in inputs if output]
        elif word.text == "[" and at > until and at in ends and ends[at] - at <= LONGEST:
            parts = split(texts[at + 1 : ends[at]])
            if len(parts) == 2 and len(parts[0]) == 1 and (output := plain(parts[1])):
                found += [(one, output, word.line) for one in _keys([*parts[0], ":"], 1)]
    return found


def written_inputs(words: list[Word]) -> set[str]:
    """Keys that are arguments as somebody wrote them down, which no honest table has."""
    return {inner for word in words if word.is_string and (inner := _written_in(word.text))}


def _keys(texts: list[str], at: int) -> list[str]:
    """What the key before the colon, or a case, says."""
    key = _at(texts, at - 1)
    return [_written_in(one) or _same(one) for one in literals([key])] if key else []


def _asked(texts: list[str], at: int) -> list[str]:
    """The literals of the condition before an answer, or what is written in them."""
    starts = ("if", "case", ";") if texts[at] == "return" else ("return", "=>", ":", "=", "?")
    start = max((back for back in range(max(0, at - _BACK), at) if texts[back] in starts), default=at)
    said = literals(texts[start:at])
    return [", ".join(_written_in(one) or _same(one) for one in said)] if said else []


def _written_in(text: str) -> str:
    """``1, 2`` of the string ``'[1, 2]'``; "" of any other."""
    inner = text[1:-1].replace('\\"', '"').replace("\\'", "'").strip() if text[:1] in ("'", '"', "`") else ""
    if not inner.startswith("[") or not inner.endswith("]") or len(inner) > 1_000:
        return ""
    return plain([word.text for word in words_of(inner[1:-1].encode())])


def _value(texts: list[str], at: int, ends: dict[int, int]) -> list[str]:
    """What begins here: one literal, or what stands in its brackets."""
    if _at(texts, at) in ("[", "{"):
        end = ends.get(at, at + LONGEST)
        return texts[at : end + 1] if end - at < LONGEST else []
    return texts[at : at + (2 if _at(texts, at) == "-" else 1)]


def plain(texts: list[str]) -> str:
    """Literals and what is made of nothing else, one way to write it; "" for anything else."""
    parts = list[str]()
    for at, text in enumerate(texts):
        if text[0] in "\"'`" or (_is_name(text) and _at(texts, at + 1) == ":" and text not in _VALUES):
            parts.append(_same(text) if text[0] in "\"'`" else f'"{text}"')
        elif text[0].isdigit() or text in _VALUES or text in ("[", "]", "{", "}", "-"):
            parts.append(text)
        elif text in (",", ":"):
            if text == "," and _at(texts, at + 1) in ("", "]", "}"):
                continue
            parts.append(f"{text} ")
        else:
            return ""
    return "".join(parts)


def split(texts: list[str]) -> list[list[str]]:
    """At commas that stand in no brackets."""
    depth, parts = 0, [list[str]()]
    for text in texts:
        depth += (text in OPEN) - (text in CLOSE)
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(text)
    return [part for part in parts if part]


def _joined(parts: list[list[str]]) -> list[str]:
    return [text for at, part in enumerate(parts) for text in ([",", *part] if at else part)]


def _same(text: str) -> str:
    """A string by double quotes, whatever it has."""
    return f'"{text[1:-1]}"' if text[0] in "\"'`" else text


def _is_name(text: str) -> bool:
    return text[0].isalpha() or text[0] in "_$"


def _at(texts: list[str], at: int) -> str:
    return texts[at] if 0 <= at < len(texts) else ""
