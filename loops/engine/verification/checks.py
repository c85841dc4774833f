"""Does the result hold? Level 1 (schema) and commands as proof; deeper levels use the same Check (SPEC L1, L2)."""

from __future__ import annotations

from collections.abc import Iterable

from loops.engine.encoding import json_schema, strict_json
from loops.engine.facts import Check
from loops.engine.state.check import CheckStatus
from loops.engine.state.evidence import Evidence, counted, weakest
from loops.engine.state.remark import is_suspicious
from loops.engine.state.run import RunState
from loops.engine.state.spec import RunSpec
from loops.engine.text.truncation import shortened

_FAULTS_SHOWN = 10
_LONGEST_FAULT = 2_000
_SCHEMA = "schema"
NO_COMMAND = "It names no command, so nothing but the word of the agent says that it is met."
_OTHERWISE = "Ask the agent for a smaller result, or end the run and submit the task with another schema."


def check_schema(spec: RunSpec, result: str) -> Check | None:
    """Level 1: the result as JSON against the task's schema; None when the task has none."""
    if spec.output_schema is None:
        return None
    text = "The result satisfies the output schema"
    try:
        document = strict_json.read(result)
    except strict_json.NotJson as error:
        return Check(text=text, status=CheckStatus.FAILED, method=_SCHEMA, detail=str(error))
    try:
        errors = json_schema.faults(dict(spec.output_schema), document, keep=_FAULTS_SHOWN + 1)
    except json_schema.Unjudgeable as error:
        wanted = f"The result cannot be compared with the output schema: {error}. {_OTHERWISE}"
        return Check(
            text, CheckStatus.ERROR, method=_SCHEMA, detail=str(error), obstacle="schema_unusable", wanted=wanted
        )
    if not errors:
        return Check(text=text, status=CheckStatus.PASSED, method=_SCHEMA)
    said = [shortened(f"{error.json_path}: {error.message}", _LONGEST_FAULT) for error in errors[:_FAULTS_SHOWN]]
    more = ["and there are more faults than these"] if len(errors) > _FAULTS_SHOWN else []
    detail = "\n".join([*said, *more])
    return Check(text=text, status=CheckStatus.FAILED, method=_SCHEMA, detail=detail)


def unproven(spec: RunSpec) -> tuple[Check, ...]:
    """Criteria that name no command: only a person (or a later level) can judge them."""
    return tuple(
        Check(c.text, CheckStatus.UNPROVEN, method="none", evidence=Evidence.CLAIMED, why=NO_COMMAND)
        for c in spec.criteria
        if not c.command
    )


def passed(checks: tuple[Check, ...]) -> bool:
    return all(check.status in {CheckStatus.PASSED, CheckStatus.UNPROVEN} for check in checks)


def judged(state: RunState) -> tuple[Check, ...]:
    """What was said of the result: the checks, and a person who sent it back."""
    checks = state.checks or ()
    if not state.review_rejection:
        return checks
    detail = state.review_rejection
    return (*checks, Check(text="Review by a person", status=CheckStatus.FAILED, detail=detail, method="review"))


def not_run(state: RunState) -> tuple[Check, ...]:
    """Checks that could not be measured for what surrounds the work. A person who sent the result back has looked."""
    if state.review_rejection:
        return ()
    return tuple(check for check in state.checks or () if check.obstacle)


def evidence_of(check: Check) -> Evidence:
    """Of one criterion that holds, or that nothing measured. What an earlier version measured counts as it did then."""
    if check.status != CheckStatus.PASSED:
        return Evidence.CLAIMED
    return check.evidence or Evidence.PROVED


def proved(state: RunState) -> bool:
    """Is every acceptance criterion proved? A schema says what a result looks like, and no more."""
    return _held(state) and weakest(map(evidence_of, state.checks or ())) is Evidence.PROVED


def _held(state: RunState) -> bool:
    """Has every acceptance criterion a check that ran and held? One without a command has a check that is unproven."""
    checks = state.checks or ()
    return any(check.method == "command" for check in checks) and all(
        check.status == CheckStatus.PASSED for check in checks
    )


def outcome(state: RunState) -> str:
    """The reason code of a run that ends well: its weakest evidence names it (SPEC X4, X5; ADR 0023). Where a change
    could have made the checks hold without the work, that is the person who looked."""
    if proved(state) and not (state.reviewed and is_suspicious(state.remarks)):
        return "criteria_met"
    if state.reviewed:
        return "accepted"
    if _held(state):
        return "criteria_met"
    return "unproven" if state.spec.criteria else "no_criteria"


EVIDENCE = {"criteria_met": "proved", "accepted": "accepted", "unproven": "claimed", "no_criteria": "claimed"}
"""Level of evidence (SPEC X4) behind each reason code of a run that ended well, at its best."""


def weakest_evidence(state: RunState, reason: str) -> Evidence:
    """Of a run that ends well for this reason; of one without criteria, and of an earlier version, what that means."""
    found = weakest(_levels(state)) if reason == outcome(state) else Evidence.NONE
    return found or Evidence(EVIDENCE.get(reason, ""))


def levels(state: RunState) -> dict[str, int]:
    """How many criteria of a run that ends well have each level."""
    return counted(_levels(state))


def measured_levels(checks: Iterable[Check]) -> list[Evidence]:
    """Of each criterion, before anybody looks. What a result looks like is none."""
    return [evidence_of(check) for check in checks if check.method != _SCHEMA]


def _levels(state: RunState) -> list[Evidence]:
    """What is not proved, a person has accepted who looked. Where nobody looked at what is suspicious, and by which all
    checks could hold, everything is only claimed."""
    found, doubted = measured_levels(state.checks or ()), is_suspicious(state.remarks)
    if state.reviewed:
        return [level if level is Evidence.PROVED and not doubted else Evidence.ACCEPTED for level in found]
    return [weakest((level, Evidence.CLAIMED)) for level in found] if doubted else found


def needs_review(state: RunState) -> bool:
    """Must a person accept the result? (SPEC C6: the model's word alone never commits.) One criterion that nothing
    proved is enough, and so is one change by which checks may hold without the work; only who said "never" is not
    asked."""
    mode = state.spec.final_review
    if mode == "always":
        return True
    return mode != "never" and (not proved(state) or is_suspicious(state.remarks))
