"""Facts to rows that people and SQL read. Pure: (fact, state after it) in, JSON rows out (architecture#journal).

The same function serves the append and the rebuild command, so that rebuilt rows equal stored ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import uuid_utils

from loops.engine import facts as f
from loops.engine.apply import answer_call_id
from loops.engine.context_window.conversation import tool_content
from loops.engine.encoding.canonical import clean, clean_json, encode, sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.measures.context_budget import window
from loops.engine.state.remark import plain
from loops.engine.state.run import CallStatus, RunState
from loops.engine.text.truncation import cut, shortened
from loops.engine.values import ArtifactRef, ModelRole, Usage, Verdict

REASONING_CHARS = 20_000
SHOWN_CHARS = 2_000
WHOLE = "among the run's raw facts"
"""Of one string in a row for display; the fact holds the whole."""
DATA_CHARS = 50_000
"""Of one string of a result's data, such as a diff."""
ESCALATIONS = frozenset({"escalation", "checks_not_run", "loop_detected", "low_confidence", "permission_blocked"})
"""Gates that open because the agent cannot go on by itself (D83). The others ask what people wished to be asked."""
PAUSE_CHARS = 1_000
NOT_PAUSED: dict[str, Any] = {"paused_by": "", "paused_reason": "", "paused_at": None}
NOTHING_SPENT = Usage(cost_microusd=0)
"""On an answer that was taken over from another run: that run paid for it (SPEC K3)."""
_NAMESPACE = uuid_utils.UUID("6f0f9a4e-0b7e-4f6a-9a35-7a7c0f6f1b11")


class Rows:
    """Collects the rows of one append. ``row_id`` is derived, so that a rebuild makes the same keys."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.new_steps: dict[int, dict[str, Any]] = {}
        self.steps: dict[int, dict[str, Any]] = {}
        self.new_calls: dict[str, dict[str, Any]] = {}
        self.calls: dict[str, dict[str, Any]] = {}
        self.models: list[dict[str, Any]] = []
        self.artifacts: list[dict[str, Any]] = []
        self.snapshot: Any = None
        self.escalation: str | None = None
        self.pause: dict[str, Any] | None = None

    def row_id(self, *parts: object) -> str:
        return str(uuid_utils.uuid5(_NAMESPACE, f"{self.run_id}|{'|'.join(map(str, parts))}"))

    def step(self, number: int, seq: int) -> dict[str, Any]:
        row = self.steps.setdefault(number, {"step_number": number})
        row["last_seq"] = seq
        return row

    def call(self, call_id: str) -> dict[str, Any]:
        return self.calls.setdefault(call_id, {"call_id": call_id})

    def as_json(self) -> dict[str, Any]:
        """Only what there is: an empty kind costs the database nothing. A new row takes its updates along."""
        for call_id in self.new_calls.keys() & self.calls.keys():
            self.new_calls[call_id] |= self.calls.pop(call_id)
        for number in self.new_steps.keys() & self.steps.keys():
            is_new = {"step_number": number, "last_seq": self.new_steps[number]["first_seq"]}
            if self.steps[number] == is_new:
                del self.steps[number]
        everything = {
            "steps": list(self.new_steps.values()),
            "step_updates": list(self.steps.values()),
            "calls": list(self.new_calls.values()),
            "call_updates": list(self.calls.values()),
            "models": self.models,
            "artifacts": self.artifacts,
            "snapshot": self.snapshot,
            "escalation": self.escalation,
            "pause": self.pause,
        }
        return {name: rows for name, rows in everything.items() if rows or rows == ""}


def project(run_id: str, entries: Sequence[tuple[f.Fact, RunState]]) -> dict[str, Any]:
    """Rows of a sequence of facts, each with the state after it."""
    rows = Rows(run_id)
    for fact, state in entries:
        handler = _HANDLERS.get(type(fact))
        if handler is not None:
            handler(rows, fact, state)
        if state.step and type(fact) not in _QUIET:
            rows.step(state.step, state.seq)
    return rows.as_json()


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat()


def _requested(rows: Rows, fact: f.ModelRequested, state: RunState) -> None:
    row = {
        "id": rows.row_id("step", state.step),
        "step_number": state.step,
        "timestamp": _time(fact.at),
        "phase": state.phase.value,
        "first_seq": state.seq,
    }
    rows.new_steps.setdefault(state.step, row)  # asked again is still the same step


def _answered(rows: Rows, fact: f.ModelAnswered, state: RunState) -> None:
    step = rows.step(state.step, state.seq)
    step["reasoning"] = cut(clean(fact.thinking or fact.text), REASONING_CHARS, WHOLE)
    step["said"] = cut(clean(fact.text if fact.thinking else ""), REASONING_CHARS, WHOLE)
    usage = NOTHING_SPENT if state.reusing else fact.usage
    step["tokens_used"] = usage.total_tokens
    step["cost_usd"] = (usage.cost_microusd or 0) / 1e6
    calls = [{"tool": clean(call.name), "arguments": _arguments(call.arguments)} for call in fact.calls]
    step["action"] = {"calls": calls, "stop_reason": fact.stop.value}
    if size := window(state):
        step["action"]["context"] = {"tokens": state.context_tokens, "window": size}
    if state.reusing:
        step["action"]["reused"] = {"tokens": fact.usage.total_tokens, "cost_microusd": fact.usage.cost_microusd}
    rows.models.append(
        _model_row(
            rows,
            state,
            usage,
            role=fact.role.value,
            model=fact.model,
            provider=fact.provider,
            model_id=fact.model_id,
            stop_reason=fitting(fact.raw_stop or fact.stop.value, 40),
            duration_ms=fact.duration_ms,
            request_id=fitting(fact.request_id, 120),
        )
    )
    for position, call in enumerate(fact.calls):
        call_id = answer_call_id(state.model_calls, position)
        rows.new_calls[call_id] = {
            "id": rows.row_id("call", call_id),
            "call_id": call_id,
            "provider_call_id": fitting(call.id, 120),
            "step_number": state.step,
            "position": position,
            "tool": fitting(call.name, 100),
            "arguments": _arguments(call.arguments),
        }


def _summed_up(rows: Rows, fact: f.ContextPruned, state: RunState) -> None:
    """A model was asked to sum up what was left out: it is paid for like any other (SPEC N4)."""
    if fact.model:
        usage = NOTHING_SPENT if state.reusing else fact.usage
        role = ModelRole.SUMMARISER.value
        rows.models.append(
            _model_row(rows, state, usage, role=role, model=fact.model, model_id=fact.model, stop_reason=fact.method)
        )


def _second_opinion(rows: Rows, fact: f.ClassificationGiven, state: RunState) -> None:
    """What it cost to have a failure classified, beside the other calls of models (SPEC N4)."""
    if fact.provider:
        rows.models.append(_aside_row(rows, fact, state, ModelRole.CLASSIFIER))


def _confidence(rows: Rows, fact: f.ConfidenceChecked, state: RunState) -> None:
    """What the judgement cost, beside the other calls of models (SPEC N4)."""
    if fact.provider:
        rows.models.append(_aside_row(rows, fact, state, ModelRole.CONFIDENCE))


def _aside_row(
    rows: Rows, fact: f.ConfidenceChecked | f.ClassificationGiven, state: RunState, role: ModelRole
) -> dict[str, Any]:
    """Of an answer that is no part of the conversation."""
    return _model_row(
        rows,
        state,
        NOTHING_SPENT if state.reusing else fact.usage,
        role=role.value,
        model=fact.model,
        provider=fact.provider,
        model_id=fact.model_id,
        duration_ms=fact.duration_ms,
        request_id=fitting(fact.request_id, 120),
    )


def fitting(text: str, most: int) -> str:
    """For a column of so many characters. Nothing says that it was cut: rows made anew equal those of before."""
    return clean(text)[:most]


def _model_row(rows: Rows, state: RunState, usage: Usage, **of_call: Any) -> dict[str, Any]:
    """One answer of a model and what it cost; ``of_call`` has what only some of them know."""
    return {
        "id": rows.row_id("model", state.seq),
        "seq": state.seq,
        "step_number": state.step,
        "phase": state.phase.value,
        "provider": "",
        "stop_reason": "",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_microusd": usage.cost_microusd,
        "duration_ms": 0,
        "request_sha256": "",
        "request_id": "",
        **of_call,
    }


def _arguments(arguments: Any) -> Any:
    return clean_json(to_plain(arguments), SHOWN_CHARS)


def _judged(rows: Rows, fact: f.CallJudged, state: RunState) -> None:
    rows.call(fact.call_id).update(access=fact.access.value, reasons=clean_json(list(fact.reasons)))


def _gate_opened(rows: Rows, fact: f.GateOpened, state: RunState) -> None:
    if fact.kind in ESCALATIONS and not state.reusing:
        rows.escalation = fitting(fact.title, SHOWN_CHARS)
    if fact.call_id and not state.reusing:  # a gate of another run is nothing that waits here
        rows.call(fact.call_id).update(state="IN_DOUBT" if fact.kind == "in_doubt" else "WAITING", gate_id=fact.gate)


def _gate_decided(rows: Rows, fact: f.GateDecided, state: RunState) -> None:
    if fact.kind in ESCALATIONS and not state.fatal:
        rows.escalation = ""  # a person helped it on
    if not fact.call_id:
        return
    pending = state.call(fact.call_id)
    if fact.verdict == Verdict.APPROVE_WITH_EDITS:
        rows.call(fact.call_id)["arguments"] = _arguments(pending.call.arguments)
    if fact.kind == "question":
        answer = fact.payload.get("answer")
        rows.call(fact.call_id).update(state="COMPLETE", ok=bool(pending.ok), output=clean(str(answer or fact.reason)))
    if fact.kind == "in_doubt" and pending.status == CallStatus.DONE:
        rows.call(fact.call_id).update(state="COMPLETE" if pending.ok else "ABORT", ok=bool(pending.ok))


def _paused(rows: Rows, fact: f.RunPaused, state: RunState) -> None:
    by, reason = fitting(fact.by, 150), shortened(clean(fact.reason), PAUSE_CHARS)
    rows.pause = {"paused_by": by, "paused_reason": reason, "paused_at": _time(fact.at)}


def _forked(rows: Rows, fact: f.Forked, state: RunState) -> None:
    rows.pause = NOT_PAUSED  # the other run was, before this one began


def _resumed(rows: Rows, fact: f.RunResumed, state: RunState) -> None:
    rows.pause = NOT_PAUSED
    if state.gate is None:
        rows.escalation = ""  # the gate ended with the run; where it is asked again, it says so again


def _intended(rows: Rows, fact: f.ToolIntended, state: RunState) -> None:
    rows.call(fact.call_id).update(
        state="INTENT",
        attempt=fact.attempt,
        idempotency_key=fact.idempotency_key,
        started_at=_time(fact.at),
        sandbox_level=fact.sandbox_level,
    )


def _completed(rows: Rows, fact: f.ToolCompleted, state: RunState) -> None:
    result = fact.result
    whole = result.output
    rows.call(fact.call_id).update(
        state="COMPLETE",
        ok=result.ok,
        output=cut(clean(tool_content(result)), SHOWN_CHARS, WHOLE),
        output_sha256=whole.sha256 if whole else "",
        error=cut(clean(result.error), SHOWN_CHARS, WHOLE),
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
        data=clean_json(to_plain(result.data), DATA_CHARS) if result.data else None,
    )
    _outcomes(rows, state)
    for artifact in (*result.artifacts, *([whole] if whole else [])):
        _artifact(rows, state.seq, "output", artifact)


def _refused(rows: Rows, fact: f.ToolRefused, state: RunState) -> None:
    rows.call(fact.call_id).update(state="ABORT", ok=False, error=cut(clean(fact.message), SHOWN_CHARS, WHOLE))
    _outcomes(rows, state)


def _proposed(rows: Rows, fact: f.ResultProposed, state: RunState) -> None:
    if fact.call_id:
        rows.call(fact.call_id).update(state="COMPLETE", ok=True, output=cut(clean(fact.result), SHOWN_CHARS, WHOLE))
        _outcomes(rows, state)


def _step_completed(rows: Rows, fact: f.StepCompleted, state: RunState) -> None:
    rows.step(fact.step, state.seq).update(
        success=fact.success,
        error=clean(fact.error),
        progress=fact.progress,
        ended_at=_time(fact.at),
        validation={
            "progress": fact.progress,
            "method": fact.progress_method,
            "detail": fact.progress_detail,
            "success": fact.success,
            **({} if fact.success else _failure(state)),
        },
    )


def _failure(state: RunState) -> dict[str, Any]:
    """Why the step failed, and what follows (SPEC E1)."""
    return {"failure": clean(state.recovering.why), "recovery": state.recovering.next or "CONTINUE"}


def _outcomes(rows: Rows, state: RunState) -> None:
    """The result of each attempt of the step so far (SPEC C1)."""
    found = [
        {
            "call": one.call.id,
            "tool": clean(one.call.name),
            "ok": one.ok,
            "attempt": one.attempt,
            "error": fitting(one.error, 300),
        }
        for one in state.calls
        if one.status == CallStatus.DONE
    ]
    rows.step(state.step, state.seq)["result"] = {"calls": found}


def _checked(rows: Rows, fact: f.ChecksCompleted, state: RunState) -> None:
    validation = {
        "progress": state.progress,
        "method": state.progress_method,
        "success": state.failures_in_row == 0,
        "checks": clean_json(to_plain(fact.checks), SHOWN_CHARS),
    } | ({"remarks": clean_json(plain(fact.remarks), SHOWN_CHARS)} if fact.remarks else {})
    rows.step(state.step, state.seq).update(progress=state.progress, validation=validation)


def _ended(rows: Rows, fact: f.RunEnded, state: RunState) -> None:
    body = to_plain(fact.report)
    whole = ArtifactRef(fact.report_kind, "application/json", sha256(body), len(encode(body)))
    _artifact(rows, state.seq, fact.report_kind, whole)
    rows.snapshot = clean_json(to_plain(state), SHOWN_CHARS)


def _artifact(rows: Rows, seq: int, kind: str, artifact: ArtifactRef) -> None:
    rows.artifacts.append(
        {
            "id": rows.row_id("artifact", seq, kind, artifact.name),
            "seq": seq,
            "kind": fitting(kind, 30),
            "name": fitting(artifact.name, 300),
            "media_type": fitting(artifact.media_type, 100),
            "sha256": artifact.sha256,
            "size": artifact.size,
        }
    )


_QUIET = frozenset({f.RunTakenOver, f.RunStarted, f.TextsChanged})

_HANDLERS: dict[type[f.Fact], Any] = {
    f.ModelRequested: _requested,
    f.ModelAnswered: _answered,
    f.ContextPruned: _summed_up,
    f.ConfidenceChecked: _confidence,
    f.ClassificationGiven: _second_opinion,
    f.CallJudged: _judged,
    f.GateOpened: _gate_opened,
    f.GateDecided: _gate_decided,
    f.RunPaused: _paused,
    f.RunResumed: _resumed,
    f.Forked: _forked,
    f.ToolIntended: _intended,
    f.ToolCompleted: _completed,
    f.ToolRefused: _refused,
    f.ResultProposed: _proposed,
    f.StepCompleted: _step_completed,
    f.ChecksCompleted: _checked,
    f.RunEnded: _ended,
}
