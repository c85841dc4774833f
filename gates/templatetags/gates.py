"""Tags of the review pages. ``{% include "gates/_card.html" %}`` works on any page with a ``gate`` and a request."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gates.models import Gate
from gates.policy import kinds
from gates.policy.queue import waiting
from gates.web import cards, escaping, labels
from loops.web.loop_detection import METHODS

register = template.Library()
register.filter("reveal", escaping.reveal)
register.filter("reveal_code", escaping.reveal_code)

RISKS = {"low": "", "medium": "wait", "high": "bad", "critical": "bad"}
"""Look of each risk; the word always stands beside it."""

UNDONE = {
    "PURE": "It changes nothing",
    "REVERSIBLE": "Yes",
    "COMPENSABLE": "Only by another action that makes up for it",
    "IRREVERSIBLE": "No, never",
}


@register.simple_tag(takes_context=True)
def gate_card(context: dict[str, Any], gate: Gate) -> cards.Card:
    """What the card shows. Permission is looked up here again: a fragment trusts no page around it."""
    user = context["request"].user
    return cards.build(gate, user, errors=context.get("errors"), typed=context.get("typed"))


@register.simple_tag(takes_context=True)
def whole_card(context: dict[str, Any], gate: Gate) -> cards.Card:
    """The same of one among several: everything that an approval binds, and the proof that it was shown."""
    return cards.whole(gate, context["request"].user)


@register.simple_tag
def keyed(verdict: str) -> SafeString:
    """Attributes of whatever a verdict's key presses."""
    key = labels.key_of(verdict)
    return format_html('data-key="{}" aria-keyshortcuts="{}"', key, key)


@register.simple_tag
def kbd(verdict: str) -> SafeString:
    """A verdict's key as people see it."""
    return format_html("<kbd>{}</kbd>", labels.key_of(verdict))


@register.simple_tag
def verdict_keys() -> tuple[labels.Key, ...]:
    """For the list of keys."""
    return labels.KEYS


@register.filter
def risk_look(risk: str) -> str:
    return RISKS.get(risk, "bad")


@register.filter
def kind_icon(kind: str) -> str:
    row = kinds.of(kind)
    return row.icon if row else "shield"


@register.filter
def lateness(gate: Gate) -> str:
    """fresh, warning or late."""
    from django.utils import timezone

    return waiting(gate.opened_at, gate.due_at, timezone.now())


@register.filter
def undone(reversibility: str) -> str:
    """Can it be undone? An unknown class is said as it is."""
    return UNDONE.get(reversibility, reversibility)


@register.filter
def percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.0f} %"


@register.filter
def circle(method: str) -> str:
    """How a loop was found, in words."""
    return METHODS.get(str(method), str(method).replace("_", " "))


@register.filter
def of_field(errors: dict[str, list[str]] | None, name: str) -> list[str]:
    """Errors of one field."""
    return (errors or {}).get(name, [])


@register.filter
def typed_as(typed: dict[str, str] | None, name: str) -> str:
    return (typed or {}).get(name, "")
