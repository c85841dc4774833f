"""Facts that stand beside the steps, said in words: messages, retries, limits, checks, the end (SPEC R1).

One file: a function for each kind of fact, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from loops.engine.confidence.bands import in_a_word
from loops.engine.confidence.score import in_words
from loops.engine.encoding import canonical
from loops.engine.ends.reasons import EXPLANATIONS, explained
from loops.engine.state.evidence import Evidence, counted, how_many
from loops.engine.state.lifecycle import LABELS as PHASES
from loops.engine.state.lifecycle import Phase
from loops.web import formatting, loop_detection

Body = Mapping[str, Any]


@dataclass(slots=True)
class Note:
    """``text`` is Markdown-free; ``checks`` are rows of acceptance criteria; ``steps`` those it is about."""

    seq: int
    at: datetime
    kind: str
    look: str
    icon: str
    title: str
    text: str = ""
    prose: bool = False
    checks: list[Body] = field(default_factory=list)
    by: str = ""
    steps: list[int] = field(default_factory=list)


def note_of(seq: int, kind: str, at: datetime, stored: bytes) -> Note | None:
    """The note of a stored fact; None when there is nothing to say."""
    body = canonical.decode(stored)
    said = _SAY[kind](body)
    return Note(seq=seq, at=at, kind=kind, **said) if said else None


def in_a_line(kind: str, body: Body) -> str:
    """The same words for terminals; "" when there is nothing to say."""
    note = _SAY[kind](body) if kind in _SAY else None
    if not note:
        return ""
    title = f"{note['title']}, by {note['by']}" if note.get("by") else note["title"]
    return f"{title}: {note['text']}" if note.get("text") else title


def text_of(value: Any) -> str:
    """A field that may have been moved out of the fact because it is long."""
    if isinstance(value, dict) and "#blob" in value:
        return f"({value.get('#size', 0):,} bytes: see Raw)"
    return str(value or "")


def _say(look: str, icon: str, title: str, **more: Any) -> dict[str, Any]:
    return {"look": look, "icon": icon, "title": title, **more}


def _phase(body: Body) -> dict[str, Any] | None:
    if body["phase"] not in ("VERIFY", "CRITIQUE", "REPAIR"):
        return None  # the others every run passes at once, or RunEnded says it; the Lifecycle view has them all
    return _say("idle", "git-branch", f"{PHASES[Phase(body['phase'])]}")


def _model_failed(body: Body) -> dict[str, Any]:
    attempt = f"attempt {body.get('attempt', 1)}"
    return _say("bad", "triangle-alert", f"The model did not answer ({attempt})", text=text_of(body.get("message")))


def _asked_another(body: Body) -> dict[str, Any] | None:
    wanted = text_of(body.get("fell_back_from"))
    if not wanted:
        return None
    title = f"Asked {text_of(body.get('model'))} instead of {wanted}"
    return _say("wait", "route", title, text=text_of(body.get("because")))


def _awaited(body: Body) -> dict[str, Any]:
    moment = datetime.fromtimestamp(body["until"] / 1e6, UTC)
    title = f"Waiting for model {text_of(body.get('model'))}, next try at {moment:%H:%M:%S} UTC"
    return _say("wait", "timer", title, text=text_of(body.get("reason")))


def _interrupted(body: Body) -> dict[str, Any]:
    return _say("idle", "circle-stop", "Answer interrupted", text=text_of(body.get("reason")))


def _backoff(body: Body) -> dict[str, Any]:
    return _say("wait", "timer", "Waiting before the next attempt", text=text_of(body.get("reason")))


def _voided(body: Body) -> dict[str, Any]:
    return _say("wait", "rotate-ccw", "Approval invalidated; asked again", text=text_of(body.get("reason")))


def _limit(verb: str) -> Callable[[Body], dict[str, Any]]:
    def say(body: Body) -> dict[str, Any]:
        used, bound = formatting.amount(body["limit"], body["used"]), formatting.amount(body["limit"], body["bound"])
        label = formatting.LIMITS.get(body["limit"], body["limit"])
        look = "wait" if verb == "nearly used up" else "bad"
        return _say(look, "gauge", f"{label} {verb}", text=f"{used} of {bound}")

    return say


def _context_warned(body: Body) -> dict[str, Any]:
    used, window = formatting.compact(body["used"]), formatting.compact(body["window"])
    text = f"{used} of {window} tokens. Older parts are shortened soon."
    return _say("wait", "gauge", "The model's context window is nearly full", text=text)


def _context_pruned(body: Body) -> dict[str, Any]:
    before, after = formatting.compact(body["before_tokens"]), formatting.compact(body["after_tokens"])
    if body.get("method", "none") == "none":
        return _say("bad", "gauge", "The conversation could not be made shorter", text=f"About {before} tokens remain.")
    done = [f"{body['dropped_messages']} messages summarised"] if body.get("dropped_messages") else []
    done += [f"{body['shortened']} long results shortened"] if body.get("shortened") else []
    by = f" The summary is by {body['model']}." if body.get("method") == "summarised" else ""
    by = f" No summary by {body['model']}: {body['why_no_model']}." if body.get("why_no_model") else by
    text = f"{' and '.join(done)}: about {before} tokens became {after}.{by} Conversation shows what it reads now."
    return _say("idle", "book-open", "The conversation was shortened for the model", text=formatting.capital(text))


_TRIGGERS = {
    "every_steps": "Checked every few steps",
    "uncertain": "The agent said that it is uncertain",
    "request": "Requested by a person",
}


def _confidence(body: Body) -> dict[str, Any]:
    score, threshold = body["score"], body["threshold"]
    how = "judged by a model" if body["method"] == "model" else "measured"
    lines = [f"{_TRIGGERS.get(body['trigger'], body['trigger'])}.", text_of(body.get("reason"))]
    if body.get("raw_score") is not None and body["raw_score"] > score:
        lines.append(f"The model rated it higher; the measured score caps it{_measured(body)}.")
    lines += [f"Model rating failed: {body['problem']}"] if body.get("problem") else []
    look = "bad" if score < threshold else "good"
    return _say(look, "gauge", f"Confidence {in_a_word(score, threshold)}, {how}", text="\n".join(lines))


def _measured(body: Body) -> str:
    against = in_words(body.get("features") or {}, body.get("weights") or {})
    return f": {'; '.join(against)}" if against else ""


def _denied(body: Body) -> dict[str, Any]:
    tool, times = text_of(body.get("tool")), body["times"]
    instead = "; ".join(body.get("alternatives") or ())
    match body["rung"]:
        case "alternatives":
            said = (
                f"It was told which tools to use instead: {instead}" if instead else "No other tool may do this for it."
            )
        case "specialist":
            who = text_of(body.get("specialist"))
            found = f"{who} may do it" if who else "nobody may do it"
            looked = f"{body.get('looked_at', 0)} other agents were considered"
            said = f"A specialist was looked for: {found} ({looked}). A person is asked next."
        case _:
            said = "Refused at once: a person was asked about this before, or could not grant it."
    often = f" (denied {times} times)" if times > 1 else ""
    return _say("bad", "lock", f"{tool} is not allowed{often}", text=said)


_FOLLOWS = {
    "CONTINUE": "The agent may try another way.",
    "BACKTRACK": "This approach is given up.",
    "FAIL_GRACEFULLY": "The run ends with a report.",
    "ESCALATE": "A person is asked.",
}


def _classified(body: Body) -> dict[str, Any]:
    follows = _FOLLOWS.get(str(body.get("decision")), "")
    look = "bad" if body.get("decision") in ("FAIL_GRACEFULLY", "ESCALATE") else "idle"
    kind = text_of(body.get("kind")).capitalize()
    title = f"{kind} failure of {text_of(body.get('tool'))}"
    return _say(look, "triangle-alert", title, text=f"{_verdicts(body)} {follows}")


def _verdicts(body: Body) -> str:
    """Which rule spoke; where it was not sure, what a model said, or why none did."""
    rule, attempt = text_of(body.get("rule")), f"attempt {body.get('attempt', 1)}"
    if body.get("model_kind"):
        model = f"model {text_of(body.get('model'))} said {body['model_kind']}"
        return f"Rule {rule} said {body.get('rule_kind')} (not sure), {model} ({attempt})."
    said = f"{text_of(body.get('reason'))} (rule {rule}, {attempt})"
    if body.get("certain", True):
        return said
    if not body.get("problem"):
        return f"{said} No rule was sure."
    nobody = f"model {text_of(body['model'])} gave no usable answer" if body.get("model") else "no model was asked"
    return f"{said} No rule was sure, and {nobody}: {text_of(body['problem'])}."


def _backtracked(body: Body) -> dict[str, Any]:
    to, first = body.get("to_step", 0), body.get("from_step", 0)
    back = f"Backtracked to step {to}" if to else "Backtracked to the beginning"
    lines = [
        f"Everything from step {first} on was taken out of the conversation; the journal keeps it.",
        text_of(body.get("summary")),
    ]
    return _say("wait", "rotate-ccw", f"{back}: {text_of(body.get('reason'))}", text="\n".join(lines))


def _reflecting(body: Body) -> dict[str, Any]:
    title = f"Reflecting: {body.get('errors', 0)} tool errors in a row"
    return _say("wait", "brain", title, text=text_of(body.get("text")))


def _stopped_calling(body: Body) -> dict[str, Any]:
    said = "Its text is taken as the result" if body.get("taken") else "It gave no result"
    return _say("idle", "info", f"The model called no tool {body.get('answers', 0)} times in a row", text=said)


def _message(body: Body) -> dict[str, Any]:
    return _say("busy", "message-square", "Message", text=text_of(body.get("text")), by=text_of(body.get("by")))


def _by(look: str, icon: str, title: str) -> Callable[[Body], dict[str, Any]]:
    return lambda body: _say(look, icon, title, by=text_of(body.get("by")))


def _turn_awaited(body: Body) -> dict[str, Any]:
    """``before`` is of the moment when it began to wait."""
    title = f"Queued for model {text_of(body.get('model'))} ({body.get('before', 0)} ahead)"
    return _say("wait", "hourglass", title, text="The endpoint answers only so many calls at once. No time is charged.")


def _prompt_shortened(body: Body) -> dict[str, Any]:
    title = f"Small context window ({body.get('window', 0):,} tokens): prompt and tools are short from here on"
    return _say("idle", "book-open", title)


def _taken_over(body: Body) -> dict[str, Any]:
    said = text_of(body.get("why"))
    return _say("wait", "rotate-ccw", "Taken over by another worker; nothing was repeated", text=said)


NAMED = 12
"""Templates in one note; the Provenance view has them all."""


def _texts_changed(body: Body) -> dict[str, Any]:
    names = sorted(body["prompts"])
    text = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return _say("idle", "info", "Continued by a worker of another version with new or changed prompts", text=text)


_FOUND = {
    "done": ("good", "Verified: the interrupted call took effect"),
    "not_done": ("wait", "Verified: the interrupted call did not take effect and is run again"),
}


def _verified(body: Body) -> dict[str, Any]:
    look, title = _FOUND.get(str(body.get("found")), ("wait", "Outcome of the interrupted call could not be verified"))
    evidence = body.get("evidence") or {}
    lines = [f"{path} {when}: {sha or 'no file'}" for when, states in evidence.items() for path, sha in states.items()]
    return _say(look, "search", f"{title} ({text_of(body.get('tool'))})", text="\n".join(lines))


def _checks(body: Body) -> dict[str, Any] | None:
    checks, more = body.get("checks") or [], _suspicious(body)
    if not checks:
        return _say("wait", "triangle-alert", more.capitalize()) if more else None
    bad = sum(check["status"] in ("failed", "error") for check in checks)
    levels = [Evidence(check["evidence"]) for check in checks if check.get("evidence")]
    title = f"{bad} of {len(checks)} criteria not met" if bad else "Acceptance criteria checked"
    title += f": {how_many(counted(levels))}" if levels and not bad else ""
    looks = {formatting.criterion(check["status"], check.get("evidence", "")) for check in checks}
    look = next(one for one in ("bad", "idle", "good") if one in looks)
    title, look = (f"{title}, but {more}", "bad" if look == "bad" else "wait") if more else (title, look)
    return _say(look, "list", title, checks=checks)


def _suspicious(body: Body) -> str:
    """Levels at their default are left out of a fact."""
    found = sum("level" not in remark for remark in body.get("remarks") or [])
    return f"{found} {'changes' if found > 1 else 'change'} could make a check pass without the work" if found else ""


def _tried(body: Body) -> dict[str, Any]:
    checks = body.get("checks") or []
    bad = sum(check["status"] == "failed" for check in checks)
    if any(check.get("obstacle") for check in checks):
        look, words = "bad", "the checks cannot run here"
    elif bad:
        counts = checks[0].get("counts") if len(checks) == 1 else ""
        look, words = "idle", counts or f"{bad} of {len(checks)} criteria not met"
    elif all(check["status"] == "passed" for check in checks):
        look, words = "good", "every criterion with a command holds already"
    else:
        look, words = "idle", "not every criterion was tried"
    return _say(look, "list", f"Before the first request: {words}", checks=checks)


def _proposed(body: Body) -> dict[str, Any]:
    return _say("busy", "flag", "Proposed result", text=text_of(body.get("result")), prose=True)


def _diagnosis(body: Body) -> dict[str, Any]:
    causes = ", ".join(cause.replace("_", " ") for cause in body.get("causes", ()))
    return _say("wait", "search", f"Cause: {causes or 'unknown'}", text=text_of(body.get("feedback")))


def _forked(body: Body) -> dict[str, Any]:
    paid = formatting.usd(body.get("cost_microusd", 0) / 1e6, unknown=body.get("cost_unknown", False))
    lines = [f"Message: {text_of(body['message'])}"] if body.get("message") else []
    lines += [f"{formatting.compact(body.get('tokens', 0))} tokens and {paid} so far were paid by that run."]
    lines += [f"Changed: {', '.join(body['changed'])}."] if body.get("changed") else []
    lines += [text_of(body["workspace"])] if body.get("workspace") else []
    title = f"Forked here from another run, after its step {body['step']}"
    return _say("busy", "git-branch", title, text="\n".join(lines), by=text_of(body.get("by")))


def _compensated(body: Body) -> dict[str, Any] | None:
    if body["outcome"] in ("undone", "nothing"):
        return None  # counted by RollbackEnded, named by the report
    paths = ", ".join(body.get("left") or ()) if not isinstance(body.get("left"), dict) else ""
    text = f"{text_of(body.get('message'))}{f' ({paths})' if paths else ''}"
    return _say("bad", "triangle-alert", "Not undone", text=text)


_CHANGED = {
    "checks": ("idle", "Files changed by the commands of criteria"),
    "unrecorded": ("wait", "Files changed outside of the recorded calls"),
    "outside": ("wait", "Files changed in the folder meanwhile, perhaps by a person"),
}


def _workspace_changed(body: Body) -> dict[str, Any]:
    look, title = _CHANGED.get(text_of(body.get("by")), _CHANGED["unrecorded"])
    paths, count = [text_of(path) for path in body.get("paths") or ()], body.get("count", 0)
    more = f" and {count - len(paths):,} more" if count > len(paths) else ""
    return _say(look, "file-diff", title, text=f"{', '.join(paths)}{more}")


def _rolled_back(body: Body) -> dict[str, Any] | None:
    if not body.get("asked", True):
        return None
    undone, left = body.get("undone", 0), body.get("left", 0)
    text = f"{undone} undone" + (f", {left} not: see the end of this page" if left else "")
    return _say("bad" if left else "good", "rotate-ccw", "Rolled back", text=text)


def _ended(body: Body) -> dict[str, Any] | None:
    if body.get("amends"):
        return None
    if body["reason"] not in EXPLANATIONS:
        return _say("idle", "circle-stop", formatting.reason(body["reason"]))
    evidence = text_of(body.get("evidence"))
    look = {"COMMIT": formatting.end(evidence), "FAIL": "bad"}.get(body["phase"], "")
    return _say(look or "idle", formatting.MARKS.get(look, "circle-stop"), explained(body["reason"], evidence))


_SAY: dict[str, Callable[[Body], dict[str, Any] | None]] = {
    "Forked": _forked,
    "RunTakenOver": _taken_over,
    "ToolVerified": _verified,
    "TextsChanged": _texts_changed,
    "PhaseEntered": _phase,
    "ModelFailed": _model_failed,
    "ModelInterrupted": _interrupted,
    "BackoffStarted": _backoff,
    "ApprovalVoided": _voided,
    "Reminded": lambda body: _say("idle", "info", "Note to the model", text=text_of(body.get("text"))),
    "LimitWarned": _limit("nearly used up"),
    "LimitReached": _limit("used up"),
    "LoopDetected": loop_detection.detected,
    "LoopBroken": loop_detection.broken,
    "StallDetected": loop_detection.stalled,
    "MessageReceived": _message,
    "StopWished": _by("idle", "square", "The message asks the run to stop"),
    "FailureClassified": _classified,
    "Backtracked": _backtracked,
    "ReflectionForced": _reflecting,
    "ReflectionGiven": _by("good", "brain", "Reflected; tools may be called again"),
    "ModelStopped": _stopped_calling,
    "StopRequested": _by("idle", "square", "Stop requested"),
    "RunPaused": lambda body: _say(
        "wait", "pause", "Paused", by=text_of(body.get("by")), text=text_of(body.get("reason"))
    ),
    "RunResumed": _by("busy", "play", "Resumed"),
    "ResultProposed": _proposed,
    "ChecksCompleted": _checks,
    "CriteriaTried": _tried,
    "DiagnosisMade": _diagnosis,
    "RollbackRequested": _by("wait", "rotate-ccw", "Rollback requested"),
    "CompensationCompleted": _compensated,
    "RollbackEnded": _rolled_back,
    "WorkspaceChanged": _workspace_changed,
    "RunEnded": _ended,
    "ConfidenceAsked": _by("idle", "gauge", "Confidence check requested"),
    "ConfidenceChecked": _confidence,
    "PermissionDenied": _denied,
    "SummaryRequested": lambda body: None,
    "ContextWarned": _context_warned,
    "ContextPruned": _context_pruned,
    "ModelRequested": _asked_another,
    "ModelAwaited": _awaited,
    "WorkspaceAwaited": lambda body: _say("wait", "folder", "Waiting for the workspace", text=text_of(body.get("why"))),
    "WorkspaceFound": lambda body: _say("busy", "folder", "Workspace available: the run continues"),
    "TurnAwaited": _turn_awaited,
    "PromptShortened": _prompt_shortened,
}
NOTED = tuple(_SAY)
