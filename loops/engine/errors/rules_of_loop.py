"""Rules for safety, policy, calls that cannot be read, and the loop's own limits (SPEC E1)."""

from __future__ import annotations

from loops.engine.errors.failure import Source
from loops.engine.errors.rule import Rule
from loops.engine.values import FailureKind

_T, _S, _U, _C = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC, FailureKind.UNRECOVERABLE, FailureKind.CRITICAL

SAFETY_RULES = (
    Rule(
        "reported_critical",
        _C,
        "The part that reported it saw a breach of safety.",
        known=_C,
    ),
    Rule(
        "escape_attempt",
        _C,
        "It tried to leave the workspace.",
        words=("leads outside the workspace or through a link", "access denied - path outside allowed directories"),
        sources=(Source.SANDBOX, Source.TOOL, Source.POLICY),
        exit_codes=(),
    ),
    Rule(
        "approved_changed",
        _C,
        "What was approved is no longer what would run.",
        words=("changed since it was approved", "what was approved kept changing"),
    ),
    Rule(
        "records_damaged",
        _C,
        "The records do not fit each other any more.",
        words=("chain is broken", "journal of the run is damaged", "hash does not match", "journal_unreadable"),
        sources=(Source.LOOP,),
    ),
    Rule(
        "model_refused",
        _C,
        "The model refused for reasons of safety.",
        codes=("refusal", "content_filter", "content_policy_violation", "refused"),
        sources=(Source.MODEL, Source.LOOP),
    ),
    Rule(
        "content_filtered",
        _C,
        "The provider's safety filter stopped it.",
        words=("content filtering policy", "content management policy", "usage polic", "safety system"),
        sources=(Source.MODEL,),
    ),
)

LOOP_RULES = (
    Rule(
        "person_rejected",
        _S,
        "A person rejected this call; another way is wanted.",
        codes=("rejected",),
        sources=(Source.POLICY,),
    ),
    Rule(
        "policy_denied",
        _S,
        "The policy does not allow this call; another way is wanted.",
        sources=(Source.POLICY,),
    ),
    Rule(
        "call_malformed",
        _S,
        "The call does not fit its tool; the same call fails again.",
        sources=(Source.SCHEMA,),
    ),
    Rule(
        "lease_over",
        _T,
        "The worker lost its lease; another one goes on with the same call.",
        words=("lease of this run",),
        sources=(Source.SANDBOX, Source.TOOL, Source.LOOP),
    ),
    Rule(
        "sandbox_absent",
        _U,
        "The sandbox does not start; an admin has to put it right.",
        words=("the sandbox does not start", "commands are refused:"),
        sources=(Source.SANDBOX, Source.TOOL),
        person_can_help=True,
    ),
    Rule(
        "sandbox_limit",
        _S,
        "It hit a limit of the sandbox; a smaller request may keep it.",
        sources=(Source.SANDBOX,),
    ),
    Rule(
        "answer_cut",
        _T,
        "The answer broke off.",
        codes=("cut",),
        sources=(Source.LOOP, Source.MODEL),
    ),
    Rule(
        "budget_used",
        _U,
        "A budget of the run is used up; a person can extend it.",
        codes=("max_steps", "max_seconds", "max_tokens", "max_cost_usd", "global_cap", "repair_budget"),
        sources=(Source.LOOP,),
        person_can_help=True,
    ),
    Rule(
        "going_in_circles",
        _S,
        "The approach does not lead anywhere.",
        codes=("loop_detected", "identical_errors", "max_failures", "stalled"),
        sources=(Source.LOOP,),
    ),
)
