"""Pages of Django's admin are templates of others, which show texts as they are: what hides or deceives in them is made
its code point on the way out, as on our own pages (SPEC S1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser

from django.http import HttpRequest, HttpResponse
from django.utils.html import escape

from loops.printable.text import odd_places, printable, with_code_points

KEPT = ("script", "style", "textarea")
"""What stands in them is no text, or is sent back as it is."""
SPOKEN = ("title", "aria-label", "alt", "label")
"""Attributes that people see or hear. No value that a form sends back is among them."""
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_SIGN = re.compile(r"&(?:\w+|#\d+|#x[0-9a-fA-F]+);|.", re.DOTALL | re.ASCII)
Attributes = list[tuple[str, str | None]]


class AdminText:
    """Middleware for the HTML of the admin. It stands within whoever counts the bytes of an answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Nothing else is read: neither pages of our own nor what is streamed, JSON or a file."""
        response = self.get_response(request)
        match = request.resolver_match
        is_page = not response.streaming and response.get("Content-Type", "").startswith("text/html")
        if is_page and match is not None and "admin" in match.app_names:
            response.content = shown(response.content.decode(response.charset))
        return response


def shown(page: str) -> str:
    """``page`` with odd characters of its texts as code points; whatever else stands in it stays byte for byte."""
    return "".join(_Pieces(page).written()) if _UNUSUAL.search(page) else page


class _Pieces(HTMLParser):
    """Where tags and texts begin. What is written is cut from the page itself, so the parser loses and adds nothing."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self._page, self._kept = page, ""
        self._lines = [0, *(end.end() for end in re.finditer("\n", page))]
        self._found: list[tuple[int, Callable[[str], str]]] = [(0, str)]
        self.feed(page)
        self.close()

    def written(self) -> Iterator[str]:
        ends = [start for start, _ in self._found[1:]]
        for (start, write), end in zip(self._found, [*ends, len(self._page)], strict=True):
            yield write(self._page[start:end])

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self._kept = tag if tag in KEPT else self._kept
        self._add(lambda source: _tag(source, tag, attrs))

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        self._add(lambda source: _tag(source, tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self._kept = "" if tag == self._kept else self._kept
        self._add(str)

    def handle_data(self, data: str) -> None:
        write = str if self._kept else _text
        if self._found[-1][1] is not write:  # a text is read whole: its words are judged beside each other
            self._add(write)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(name)

    def handle_charref(self, name: str) -> None:
        self.handle_data(name)

    def handle_comment(self, data: str) -> None:
        self._add(str)

    handle_pi = unknown_decl = handle_comment

    def handle_decl(self, decl: str) -> None:
        self._add(str)

    def _add(self, write: Callable[[str], str]) -> None:
        line, column = self.getpos()
        self._found.append((self._lines[line - 1] + column, write))


def _text(source: str) -> str:
    """What stands there as a reference is the template's own, or was escaped, and stays one."""
    if not _UNUSUAL.search(source):
        return source
    signs = _SIGN.findall(source)
    read = "".join(letter if len(letter := unescape(sign)) == 1 else " " for sign in signs)
    for place in odd_places(read):
        if len(signs[place]) == 1:
            signs[place] = escape(with_code_points(read[place], [0]))
    return "".join(signs)


def _tag(source: str, tag: str, attributes: Attributes) -> str:
    """As it is, or, where an attribute deceives, written anew with the same values in all others."""
    if not _UNUSUAL.search(source):
        return source
    plain = [(name, printable(value) if value and name in SPOKEN else value) for name, value in attributes]
    if plain == attributes:
        return source
    written = (f" {name}" if value is None else f' {name}="{escape(value)}"' for name, value in plain)
    return f"<{tag}{''.join(written)}{'/' if source.endswith('/>') else ''}>"
