"""The theory of the loop, and ``decide``.

A run is a sequence of facts. Two pure functions carry it:

    apply(state, fact) -> state        what a fact means          (apply.py)
    decide(state)      -> effect       what is to be done next    (here)

The driver repeats: take what the mailbox holds as facts, ask ``decide``, perform the effect, write the facts that came
of it. Nothing else ever happens to a run. From that one idea follow, without further machinery:

* **Resume**: fold the journal, ask ``decide``, go on. A crash between two facts loses nothing, because what was decided
  is decided again from the same state, the same way.
* **Write-ahead**: an effect that touches the world is performed only after the facts that led to it, its INTENT among
  them, are committed. An INTENT without an outcome, found at resume, is the one thing ``decide`` never repeats: it
  says RecoverTool, and the world or a person is asked.
* **Replay, fork, what-if, audit**: fold a prefix, or fold with other rules.
* **Termination** (SPEC A6): ``before_request`` stands before every request of every loop; every bound is finite; only
  a person can raise one, and only ``max_extensions`` times. Between two model requests a state can only move forward:
  each call of an answer leaves "proposed" for good, a voided approval counts, and phases follow the table.

Time is data: facts carry it, stamped by the driver. Waiting for people is a state, never a blocked worker: the effect
is Rest, and the driver gives the run back.
"""

from __future__ import annotations

from dataclasses import replace

from loops.engine.apply import ImpossibleFact, apply, initial, replay
from loops.engine.effects import AwaitModel, AwaitTurn, CallModel, Effect, OpenGate, Record, Rest, RunChecks, Wait
from loops.engine.ends import reasons as end_reasons
from loops.engine.ends.reasons import When
from loops.engine.facts import DiagnosisMade, Fact
from loops.engine.rollback import plan
from loops.engine.run.phases import entered
from loops.engine.state.check import CheckStatus
from loops.engine.state.evidence import WEAK, Evidence, counted, how_many, weakest
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.remark import is_suspicious, plain
from loops.engine.state.run import RunState
from loops.engine.strategies import before_request, third_party
from loops.engine.values import Json
from loops.engine.verification.checks import judged, measured_levels, needs_review, not_run, passed, proved
from loops.engine.verification.diagnosis import ask_for_more, diagnose, repair_budget
from loops.engine.verification.environment_gate import check_view, environment_gate

_SUSPICIOUS = "a change could make a check pass without the work"

__all__ = ["ImpossibleFact", "apply", "decide", "initial", "replay"]


def decide(state: RunState) -> Effect:
    """The one next effect."""
    return _people_first(state) or _bounds(state) or _in_phase(state)


def _people_first(state: RunState) -> Effect | None:
    """What people decided, or have to decide, comes before anything the run would do by itself."""
    if state.is_ended:
        return plan.after_the_end(state)
    if state.stop_requested:
        return end_reasons.end(state, When.STOP)
    if state.gate is not None:
        return Rest(f"gate:{state.gate.kind}")
    if state.paused:
        return Rest("paused")
    return None


def _bounds(state: RunState) -> Effect | None:
    """What ends or suspends the run wherever it stands."""
    if state.fatal and not state.calls and not state.answered:
        return end_reasons.end(state, When.GIVEN_UP)
    if state.wake_at:
        return Wait(state.wake_at)
    if state.outage.until:
        return AwaitModel(state.outage.until)
    if state.turn_at:
        return AwaitTurn(state.turn_at)
    if state.awaiting_message and not state.answered:
        return Rest("message")
    return end_reasons.due(state, When.CAP)


def _in_phase(state: RunState) -> Effect:
    match state.phase:
        case Phase.PLAN | Phase.DECOMPOSE | Phase.RETRIEVE:
            return _of_the_loop(state, "plan")
        case Phase.ACT:
            return _of_the_loop(state, "act")
        case Phase.VERIFY:
            return _verify(state)
        case Phase.CRITIQUE:
            return ask_for_more(state) or Record(_critique(state))
        case _:
            return (ask_for_more(state) if repair_budget(state) else None) or _of_the_loop(state, "act")


def _of_the_loop(state: RunState, part: str) -> Effect:
    """What the loop wants. It says that the model is to be asked; when it may be is the same for all of them."""
    effect = third_party.next_of(state, part)
    return before_request.next_effect(state) or effect if isinstance(effect, CallModel) else effect


def _verify(state: RunState) -> Effect:
    if state.checks is None:
        return RunChecks()
    if not_run(state):
        return environment_gate(state, state.checks)
    if not passed(state.checks) or state.review_rejection:
        return Record((entered(state.phase, Event.QUALITY_GATE_FAIL),))
    if needs_review(state) and not state.reviewed:
        return _final_review(state)
    end = end_reasons.end(state, When.RESULT)
    return replace(end, gate=state.review.gate, subject=_reviewed(state)) if state.review.gate else end


def _critique(state: RunState) -> tuple[Fact, ...]:
    causes, feedback = diagnose(judged(state))
    return (DiagnosisMade(causes=causes, feedback=feedback), entered(state.phase, Event.DIAGNOSIS_COMPLETE))


def _final_review(state: RunState) -> OpenGate:
    checks = state.checks or ()
    proven, levels = sum(check.status == CheckStatus.PASSED for check in checks), measured_levels(checks)
    level = weakest(levels)
    suspicious = is_suspicious(state.remarks)
    doubtful = suspicious or level is Evidence.CONTRADICTED
    otherwise = f"{proven} of {len(checks)} checks passed" if checks else "no automatic checks"
    return OpenGate(
        kind="final_review",
        title=f"Review result ({how_many(counted(levels)) or otherwise})",
        reasons=_why_reviewed(state, suspicious),
        risk="high" if doubtful else "medium",
        recommended="approve" if checks and proven == len(checks) and not doubtful and level not in WEAK else "",
        subject=_reviewed(state),
        view={"result": state.result, "criteria": [check_view(check) for check in checks]} | _remarked(state),
    )


def _reviewed(state: RunState) -> dict[str, Json]:
    """What a review binds of the run itself: the result, and what the checks said of it."""
    return {"result": state.result, "checks": [check_view(check) for check in state.checks or ()]}


def _remarked(state: RunState) -> dict[str, Json]:
    return {"remarks": plain(state.remarks)} if state.remarks else {}


def _why_reviewed(state: RunState, suspicious: bool) -> tuple[str, ...]:
    """Why a person is to look: who asks for it, and what is lacking."""
    always = state.spec.final_review == "always"
    reasons = [f"asked again: {state.review.why}"] if state.review.why else []
    reasons += ["the policy asks for a review of every result"] if always else []
    if state.spec.criteria and not proved(state):
        lacking = counted(level for level in measured_levels(state.checks or ()) if level is not Evidence.PROVED)
        reasons.append(f"not every criterion is proved: {how_many(lacking)}")
    elif not state.spec.criteria and not always:
        reasons.append("the task has no automatic checks")
    return (*reasons, *([_SUSPICIOUS] if suspicious else ()))
