"""Rules for safety, policy, calls that cannot be read, and the loop's own limits (SPEC E1)."""

from __future__ import annotations

from loops.engine.errors.failure import Source
from loops.engine.errors.rule import Rule
from loops.engine.values import FailureKind

_TRANSIENT, _SYSTEMATIC = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC
_UNRECOVERABLE, _CRITICAL = FailureKind.UNRECOVERABLE, FailureKind.CRITICAL

SAFETY_RULES = (
    Rule(
        "reported_critical",
        _CRITICAL,
        "The part that reported it saw a breach of safety.",
        known=_CRITICAL,
    ),
    Rule(
        "escape_attempt",
        _CRITICAL,
        "It named a place outside of what it may touch.",
        words=(
            "leads outside the workspace",
            "is not a path inside the workspace",
            "contains '..'; name the file",
            "outside allowed directories",
            "outside the allowed director",
            "outside of allowed director",
            "path traversal",
        ),
        own_words=True,
        sources=(Source.SANDBOX, Source.TOOL, Source.POLICY),
    ),
    Rule(
        "host_touched",
        _CRITICAL,
        "It reached for the machine behind the sandbox.",
        words=(
            "/proc/1/",
            "/proc/sys",
            "/proc/kcore",
            "/sys/kernel",
            "/sys/fs/cgroup",
            "/dev/mem",
            "/dev/kmsg",
            "docker.sock",
            "containerd.sock",
            "ptrace",
            "mknod:",
            "nsenter:",
            "pivot_root",
            "insmod:",
            "modprobe:",
            "kexec",
            "kill: (1)",
            "mount:",
        ),
        beside=("permission denied", "not permitted", "superuser", "read-only file system"),
        sources=(Source.TOOL, Source.SANDBOX),
        tools=("run_command", "run_tests"),
    ),
    Rule(
        "approved_changed",
        _CRITICAL,
        "What was approved is no longer what would run.",
        words=("changed since it was approved", "what was approved kept changing"),
        own_words=True,
    ),
    Rule(
        "records_damaged",
        _CRITICAL,
        "The records of the run do not hold together any more.",
        codes=("journal_unreadable",),
        sources=(Source.LOOP,),
    ),
    Rule(
        "model_refused",
        _CRITICAL,
        "The model refused for reasons of safety.",
        codes=("refusal", "refused", "content_filter", "content_policy_violation", "responsibleaipolicyviolation"),
        sources=(Source.MODEL, Source.LOOP),
    ),
    Rule(
        "content_filtered",
        _CRITICAL,
        "The provider's safety filter stopped it.",
        words=(
            "content filtering policy",
            "content management policy",
            "content_filter",
            "content_policy_violation",
            "content policy",
            "contentpolicy",
            "content moderation",
            "moderation blocked",
            "moderation_blocked",
            "safety system",
            "safety filter",
            "safety_violation",
            "prohibited_content",
            "usage policy",
            "usage policies",
            "guardrail",
        ),
        sources=(Source.MODEL,),
    ),
)

LOOP_RULES = (
    Rule(
        "sandbox_absent",
        _UNRECOVERABLE,
        "There is no sandbox to run it in; an admin has to put that right.",
        words=("the sandbox does not start", "commands are refused:"),
        own_words=True,
        sources=(Source.SANDBOX, Source.TOOL, Source.POLICY),
        person_can_help=True,
    ),
    Rule(
        "lease_over",
        _TRANSIENT,
        "The worker lost its lease; another one goes on with the same call.",
        words=("the lease of this run",),
        own_words=True,
        sources=(Source.SANDBOX, Source.TOOL, Source.LOOP),
    ),
    Rule(
        "person_rejected",
        _SYSTEMATIC,
        "A person rejected this call; another way is wanted.",
        codes=("rejected",),
        sources=(Source.POLICY,),
    ),
    Rule(
        "policy_denied",
        _SYSTEMATIC,
        "The policy does not allow this call; another way is wanted.",
        sources=(Source.POLICY,),
    ),
    Rule(
        "call_malformed",
        _SYSTEMATIC,
        "The call does not fit its tool; the same call fails again.",
        sources=(Source.SCHEMA,),
    ),
    Rule(
        "sandbox_limit",
        _SYSTEMATIC,
        "It hit a limit of the sandbox; a smaller request may keep it.",
        sources=(Source.SANDBOX,),
    ),
    Rule(
        "budget_used",
        _UNRECOVERABLE,
        "A budget of the run is used up; a person can extend it.",
        codes=("max_steps", "max_seconds", "max_tokens", "max_cost_usd", "global_cap", "repair_budget"),
        sources=(Source.LOOP,),
        person_can_help=True,
    ),
    Rule(
        "run_disabled",
        _UNRECOVERABLE,
        "What the run stands on is gone; a person can restore it.",
        codes=("model_unavailable", "workspace_unusable", "internal_error"),
        sources=(Source.LOOP,),
        person_can_help=True,
    ),
    Rule(
        "going_in_circles",
        _SYSTEMATIC,
        "The approach does not lead anywhere.",
        codes=("loop_detected", "identical_errors", "max_failures", "stalled", "context_exceeded"),
        sources=(Source.LOOP,),
    ),
)
