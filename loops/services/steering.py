"""Stop, pause, resume and talk to a run (SPEC K1, K2). Everything goes into the run's mailbox; its owner acts on it."""

from __future__ import annotations

import re
from typing import Any

from django.db import transaction

from loops.engine.people.stop_phrases import wants_to_stop
from loops.engine.state.lifecycle import RETRIABLE
from loops.engine.text.truncation import shortened
from loops.models import MailboxItem, Run
from loops.querysets import OPERATE
from loops.services import access, audit, open_runs
from loops.services.submission import unstorable
from loops.storage import inbox

MAX_MESSAGE = 20_000
Kind = MailboxItem.Kind
Status = Run.Status
RESUMABLE = (Status.PAUSED, Status.INTERRUPTED)
FINAL = (Status.COMPLETED, Status.FAILED, Status.ESCALATED)
RETRY, UNREADABLE = "retry", "journal_unreadable"


class NotPossible(Exception):
    """The run is in no state for this. The message says why, for people."""


class InvalidMessage(Exception):
    """A message that cannot be delivered; the text says why."""


def stop_run(*, actor: Any, run: Run) -> MailboxItem:
    """End the run at once, with what it has: it can be resumed later."""
    return _steer(actor, run, Kind.STOP)


def pause_run(*, actor: Any, run: Run) -> MailboxItem:
    """Hold the run after what it is doing now."""
    return _steer(actor, run, Kind.PAUSE)


def resume_run(*, actor: Any, run: Run) -> MailboxItem:
    """Go on with a paused run, or with one that was stopped."""
    return _steer(actor, run, Kind.RESUME)


def retry_run(*, actor: Any, run: Run) -> MailboxItem:
    """Have a run go on that ended because AgentOps or its model could not: exactly where it was (ADR 0009)."""
    return _steer(actor, run, RETRY)


def check_confidence(*, actor: Any, run: Run) -> MailboxItem:
    """Have the run's confidence judged before its next step (SPEC G2)."""
    return _steer(actor, run, Kind.CHECK_CONFIDENCE)


STEERING = {
    "stop": stop_run,
    "pause": pause_run,
    "resume": resume_run,
    RETRY: retry_run,
    "check_confidence": check_confidence,
}


_COMMAND = re.compile(r"\s*/([A-Za-z_-]\w*)(?=\s|\Z)")
KNOWN_COMMANDS = (
    f"The commands are {', '.join(f'/{name}' for name in STEERING)}. "
    "A message to the agent begins with another character."
)


def send_message(*, actor: Any, run: Run, text: str) -> MailboxItem:
    """Tell the run something. Only a command such as ``/stop`` steers it, and a message that says nothing but that it
    should stop (SPEC D1): like the button it interrupts at once. All else is text, never an order.

    Raises InvalidMessage for a command that there is not: it is neither obeyed nor told to the agent.
    """
    if command := command_in(text):
        return STEERING[command](actor=actor, run=run)
    _check_text(text)
    alive = Run.objects.values_list("status", flat=True).get(pk=run.pk) != Status.INTERRUPTED
    kind = Kind.STOP if alive and wants_to_stop(text) else Kind.MESSAGE
    return _steer(actor, run, kind, {"text": text})


def command_in(text: str) -> str:
    """The command that ``text`` is, "" for a text. A path such as ``/etc/hosts`` is text. Raises InvalidMessage for a
    command that does not exist, and for one with words behind it that are no wish to stop."""
    said = _COMMAND.match(text)
    if said is None:
        return ""
    name, more = said[1].lower(), text[said.end() :].strip()
    if name not in STEERING:
        raise InvalidMessage(f"There is no command /{shortened(name, 40)}, and nothing was sent. {KNOWN_COMMANDS}")
    if more and not (name == Kind.STOP and wants_to_stop(f"{name} {more}")):
        raise InvalidMessage(f"/{name} stands alone, and nothing was sent: send it without the words behind it.")
    return name


def is_command(text: str) -> bool:
    """Does ``text`` look like a command, one that exists or not?"""
    return _COMMAND.match(text) is not None


def why_impossible(kind: str, status: str, end_reason: str = "") -> str:
    """Why ``kind`` makes no sense for a run in ``status``; empty when it does. Pages ask this for their buttons."""
    label = Status(status).label.lower()
    if kind == RETRY:
        possible = status == Status.FAILED and (end_reason in RETRIABLE or end_reason == UNREADABLE)
        only = "Only a run that failed because of AgentOps or its model can be tried again"
        return "" if possible else f"{only}; this one is {label}. Fork it instead."
    if status in FINAL:
        return f"This run has already ended ({label}). Fork it, or submit a new task."
    if kind == Kind.RESUME and status not in RESUMABLE:
        return f"This run is not paused ({label}), so there is nothing to resume."
    if kind == Kind.STOP and status == Status.INTERRUPTED:
        return "This run has already been stopped."
    if kind == Kind.PAUSE and status == Status.INTERRUPTED:
        return "This run has already been stopped; it cannot be paused."
    if kind == Kind.CHECK_CONFIDENCE and status == Status.INTERRUPTED:
        return "This run has already been stopped; its confidence is not judged any more."
    if kind == Kind.PAUSE and status == Status.PAUSED:
        return "This run is already paused."
    return ""


def _steer(actor: Any, run: Run, kind: str, payload: dict[str, Any] | None = None) -> MailboxItem:
    verb = "send messages" if kind == Kind.MESSAGE else f"{kind} runs"
    access.require(actor, run.project, OPERATE, what=verb, run=run)
    status, end_reason = Run.objects.values_list("status", "end_reason").get(pk=run.pk)
    why_not = why_impossible(kind, status, end_reason)
    if why_not:
        audit.record(f"run.{kind}_refused", actor=actor, run=run, detail={"status": status, "why": why_not})
        raise NotPossible(why_not)
    try:
        return _put(actor, run, kind, payload, status)
    except open_runs.TooManyOpen as error:
        open_runs.note(actor, run.project, error, run)
        raise NotPossible(f"{error}.") from error


def _put(actor: Any, run: Run, kind: str, payload: dict[str, Any] | None, status: str) -> MailboxItem:
    with transaction.atomic():
        if kind in (Kind.RESUME, RETRY) and status in Run.ENDED:
            open_runs.take_place(open_runs.owner_of(run), run.project, again=run)
        item = inbox.put(run.pk, Kind.RESUME if kind == RETRY else kind, payload, actor=actor)
        if kind in (RETRY, Kind.RESUME):
            _forgive(run)
        detail = {"status": status, "mailbox": str(item.pk), **(payload or {})}
        audit.record(f"run.{kind}", actor=actor, run=run, detail=detail)
    return item


def _forgive(run: Run) -> None:
    """A person looked: workers lost so far count no more. A condemned run has no fact of its end: its row said so."""
    Run.objects.filter(pk=run.pk).update(recoveries=0)
    alive = {"status": Status.QUEUED, "final_status": "", "end_reason": "", "completed_at": None}
    alive |= {"escalation_reason": "", "waiting_on": ""}
    Run.objects.filter(pk=run.pk, end_reason=UNREADABLE).update(**alive)


def _check_text(text: str) -> None:
    if not text.strip():
        raise InvalidMessage("The message is empty.")
    if len(text) > MAX_MESSAGE:
        raise InvalidMessage(f"The message has {len(text):,} characters; at most {MAX_MESSAGE:,} are possible.")
    if fault := unstorable(text):
        raise InvalidMessage(f"The message {fault}.")
