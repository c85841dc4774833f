"""Tags of the console's templates. They say things (``loops.web.formatting``) and never read more than they are
given."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from loops.engine.encoding.canonical import unshortened, whole_length
from loops.engine.state import own_tests_in_words
from loops.engine.state.evidence import how_many
from loops.engine.state.lifecycle import LABELS, Phase
from loops.engine.text.truncation import cut
from loops.printable.text import printable, prose
from loops.storage.rows import SHOWN_CHARS
from loops.web import diffs, formatting, markdown
from loops.web import open_gates as web_open_gates
from loops.web.access import Roles, roles

register = template.Library()
FACT_CHARS = 500_000

register.filter("printable", lambda text: printable("" if text is None else str(text)))
register.filter("prose", lambda text: prose("" if text is None else str(text)))
register.filter("joined", lambda texts, between: printable(between.join(map(str, texts or ()))))
register.filter("duration", formatting.duration)
register.filter("compact", formatting.compact)
register.filter("pretty", formatting.pretty)
register.filter("one_line", formatting.one_line)
register.filter("reason", formatting.reason)
register.filter("paused", formatting.paused)
register.filter("ended", formatting.ended)
register.filter("own_tests", own_tests_in_words.in_words)
register.filter("whole_fact", lambda text: cut(text, FACT_CHARS, "in the answer of the API: /facts/ of the run"))
register.filter("markdown", lambda text: markdown.markdown(str(text or "")))
register.filter("diff_files", diffs.of_data)
register.filter("as_json", lambda value: json.dumps(value, ensure_ascii=False))
register.filter("grouped", lambda number: f"{number:,}")


@cache
def _sprite() -> str:
    return static("vendor/lucide-static@1.62.0/sprite.svg")


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """A drawing beside a word; it says nothing to screen readers."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>', css, _sprite(), name
    )


@register.simple_tag
def copy(what: str) -> SafeString:
    """A button that copies the text beside it; inside ``.copyable``, above a ``pre`` or ``code``."""
    return format_html(
        '<button type="button" class="copy" data-copy-near title="Copy" aria-label="Copy {}">{}</button>',
        what,
        icon("copy", "small"),
    )


@register.filter
def when(moment: datetime | None) -> SafeString:
    """Relative time, the exact one on hover and in the markup; the page keeps it fresh."""
    if moment is None:
        return SafeString('<span class="muted">&ndash;</span>')
    exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact, formatting.ago(moment))


@register.filter
def milliseconds(value: float | None) -> str:
    """Duration of something that was counted in milliseconds."""
    return formatting.duration((value or 0) / 1000)


@register.filter
def epoch_ms(moment: datetime | None) -> str:
    return f"{moment.timestamp() * 1000:.0f}" if moment else ""


@register.simple_tag
def usd(amount: Any, unknown: bool = False) -> str:
    return formatting.usd(amount, unknown=unknown)


@register.simple_tag
def state(run: Any) -> SafeString:
    """Label of a run's state: word, icon and colour together (SPEC A2)."""
    look, drawing = formatting.state_look(run)
    return format_html('<span class="state" data-look="{}">{}{}</span>', look, icon(drawing), formatting.state(run))


@register.simple_tag
def level(check: Any) -> SafeString:
    """How well a criterion is proved: word, icon and colour together; nothing where that was not recorded."""
    name = str(check.get("evidence") or "")
    look, drawing, means = formatting.LEVELS.get(name, ("idle", "circle-help", "Not known to this version"))
    shown = format_html(
        '<span class="state" data-look="{}" title="{}">{}{}</span>', look, means, icon(drawing), printable(name)
    )
    return shown if name else SafeString("")


@register.filter
def check_look(check: Any) -> str:
    return formatting.criterion(str(check.get("status")), str(check.get("evidence") or ""))


@register.filter
def mark(look: str) -> str:
    return formatting.MARKS.get(look, "circle-stop")


@register.filter
def end_look(report: Any) -> str:
    """Of the end of a run that completed."""
    return formatting.end(str(report.get("evidence") or ""))


@register.filter
def levels_said(report: Any) -> str:
    """How many criteria have each level, in words; empty where that was not recorded."""
    return how_many(report.get("levels") or {}, printable(str(report.get("approver") or "")))


@register.inclusion_tag("loops/_limits_bar.html")
def meter(label: str, used: float, bound: float, said: str = "") -> dict[str, Any]:
    """How much of a bound is used; from 80 % on it looks it (SPEC D2)."""
    share = min(used / bound, 1.0) if bound else 0.0
    look = "over" if bound and used >= bound else "warn" if share >= 0.8 else "fine"
    return {"label": label, "percent": f"{share * 100:.1f}", "look": look, "said": said or f"{used:g} of {bound:g}"}


@register.simple_tag(takes_context=True)
def open_gates(context: dict[str, Any]) -> int:
    """Number on the Review badge: counted by the very query that the Review page lists."""
    request = context.get("request")
    return web_open_gates.count_for(request) if request is not None and request.user.is_authenticated else 0


@register.simple_tag(takes_context=True)
def my_roles(context: dict[str, Any]) -> Roles:
    """What the person asking may do in any of their projects."""
    request = context.get("request")
    return roles(request) if request is not None else Roles()


@register.simple_tag
def has_gate_cards() -> bool:
    return web_open_gates.has_cards()


@register.filter
def waits(run: Any) -> str:
    """What a run waits for, or does, for a line of a list."""
    return web_open_gates.waits(run)


@register.filter
def standing(run: Any) -> str:
    """What a run that waits for a resource waits for, in a sentence."""
    return web_open_gates.standing(run)


@register.filter
def phase(name: str) -> str:
    return LABELS[Phase(name)] if name in Phase.__members__ else name


@register.filter
def percent(share: float | None) -> str:
    return f"{(share or 0) * 100:.0f} %"


_CALLS = {
    # state: (look, words) while nothing more is known
    "PROPOSED": ("idle", "Proposed"),
    "WAITING": ("wait", "Waiting for approval"),
    "INTENT": ("busy", "Running"),
    "COMPLETE": ("good", "Done"),
    "ABORT": ("wait", "Not run"),
    "IN_DOUBT": ("bad", "Outcome in doubt"),
}


@register.filter
def call_look(call: Any) -> str:
    return "bad" if call.state == "COMPLETE" and call.ok is False else _CALLS[call.state][0]


@register.filter
def call_said(call: Any) -> str:
    return "Failed" if call.state == "COMPLETE" and call.ok is False else _CALLS[call.state][1]


@register.filter
def tests(data: Any) -> dict[str, str] | None:
    """Counts of a test run, if the tool knows any; those of a command that the agent chose say so."""
    if not isinstance(data, dict) or not isinstance(data.get("passed"), int):
        return None
    failed = data.get("failed") or 0
    said = f"{data['passed']} passed" + (f", {failed} failed" if failed else "")
    said += ", the command says" if data.get("reported") is True else ""
    said += ", not all counted" if data.get("not_counted") else ""
    return {"look": "bad" if failed else "wait" if data.get("not_counted") else "good", "said": said}


@register.filter
def as_text(value: Any) -> str:
    return value if isinstance(value, str) else formatting.pretty(value)


@register.filter
def is_long(value: Any) -> bool:
    text = as_text(value)
    return len(text) > 100 or "\n" in text


@register.filter
def is_shortened(value: Any) -> bool:
    """Does a page have only the beginning of this argument?"""
    return isinstance(value, str) and whole_length(value, SHOWN_CHARS) != len(value)


@register.filter
def as_shown(value: Any) -> str:
    """What there is of it, without the number that was put behind a shortened text."""
    return unshortened(value, SHOWN_CHARS) if isinstance(value, str) else as_text(value)


@register.filter
def size_said(value: Any) -> str:
    """How large an argument is: the whole of it, not what a page has."""
    if isinstance(value, list | tuple):
        return f"{len(value):,} item{'' if len(value) == 1 else 's'}"
    return f"{whole_length(as_text(value), SHOWN_CHARS):,} characters"


@register.filter
def gate_waited(gate: Any) -> str:
    """How long a gate waited for its decision."""
    return formatting.duration(((gate.decided_at or gate.opened_at) - gate.opened_at).total_seconds())


@register.filter
def blocks(content: Any) -> list[Any]:
    """Content of a message as blocks; plain text is one."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


@register.filter
def as_words(content: Any) -> str:
    """Text of a tool result, whose content may be text or blocks of text."""
    return "\n".join(str(block.get("text", block) if isinstance(block, dict) else block) for block in blocks(content))
