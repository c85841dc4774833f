"""Rules for calls to models: provider codes first, then words, then the HTTP status (SPEC E1, E6)."""

from __future__ import annotations

from loops.engine.errors.failure import Source
from loops.engine.errors.rule import Rule
from loops.engine.values import FailureKind

_T, _S, _U, _C = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC, FailureKind.UNRECOVERABLE, FailureKind.CRITICAL
_MODEL = (Source.MODEL,)

MODEL_RULES = (
    Rule(
        "money_used_up",
        _U,
        "The account has no money or quota left; a person can pay.",
        words=("credit balance is too low", "insufficient_quota", "insufficient quota", "exceeded your current quota"),
        sources=_MODEL,
        person_can_help=True,
    ),
    Rule(
        "billing",
        _U,
        "The account has no money or quota left; a person can pay.",
        codes=("billing_error", "insufficient_quota", "billing_hard_limit_reached"),
        sources=_MODEL,
        person_can_help=True,
    ),
    Rule(
        "key_refused",
        _U,
        "The provider refuses the key or the account; a person can change it.",
        codes=("authentication_error", "permission_error", "invalid_api_key", "account_deactivated", "no_api_key"),
        sources=_MODEL,
        person_can_help=True,
    ),
    Rule(
        "model_unknown",
        _U,
        "The provider does not know this model or address; a person can change the configuration.",
        codes=("not_found_error", "model_not_found", "unknown_model", "bad_base_url", "bad_certificate", "not_an_api"),
        sources=_MODEL,
        person_can_help=True,
    ),
    Rule(
        "prompt_too_long",
        _S,
        "The conversation is too long for the model; a shorter one may fit.",
        words=("prompt is too long", "context_length_exceeded", "maximum context length", "exceeds the context"),
        sources=_MODEL,
    ),
    Rule(
        "request_too_large",
        _S,
        "The request is too large; a smaller one may pass.",
        codes=("request_too_large", "context_length_exceeded", "prompt_too_long", "model_context_window_exceeded"),
        sources=_MODEL,
    ),
    Rule(
        "provider_busy",
        _T,
        "The provider is busy or limits the rate; the same request may pass later.",
        codes=("overloaded_error", "rate_limit_error", "rate_limit_exceeded", "api_error", "timeout_error"),
        sources=_MODEL,
    ),
    Rule(
        "connection_broke",
        _T,
        "The connection broke; the same request may pass.",
        codes=("connection_failed", "connection_reset", "connection_cut", "timeout", "empty_stream", "bad_stream"),
        sources=_MODEL,
    ),
    Rule(
        "account_status",
        _U,
        "The provider refuses the key, the account or the address; a person can change it.",
        statuses=(401, 402, 403, 404),
        sources=_MODEL,
        person_can_help=True,
    ),
    Rule(
        "busy_status",
        _T,
        "The provider could not answer now; the same request may pass later.",
        statuses=(408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529),
        sources=_MODEL,
    ),
    Rule(
        "request_refused",
        _S,
        "The provider refuses this request as it is.",
        statuses=(400, 405, 406, 411, 412, 413, 414, 415, 422),
        sources=_MODEL,
    ),
    Rule(
        "reported_by_adapter",
        _T,
        "The adapter read that the same request may pass.",
        sources=_MODEL,
        known=_T,
    ),
)
