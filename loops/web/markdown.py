"""Text from models and people, made safe to show: Markdown without HTML or images (attack 47)."""

from __future__ import annotations

from functools import cache

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from loops.printable.text import prose

LONGEST = 60_000
TAGS = {
    "a", "p", "br", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}


def markdown(text: str) -> SafeString:
    """HTML of ``text``. Raw HTML stays text, links lead to the web or mail only, pictures never load,
    and letters that deceive are code points."""
    html = _parser().render(prose(text[:LONGEST]))
    clean = nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    if len(text) > LONGEST:
        clean += f"<p><em>{len(text) - LONGEST:,} more characters are in the raw view.</em></p>"
    return mark_safe(clean)  # noqa: S308 - cleaned just above


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"]).disable("image")
