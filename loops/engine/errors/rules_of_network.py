"""Rules for network trouble that a tool tells of in words (SPEC E1). Commands have no network: see the tools' table."""

from __future__ import annotations

from loops.engine.errors.rule import Rule
from loops.engine.values import FailureKind

_T, _S, _U, _C = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC, FailureKind.UNRECOVERABLE, FailureKind.CRITICAL

NETWORK_RULES = (
    Rule(
        "certificate_refused",
        _U,
        "The certificate is not trusted; a person can change the configuration.",
        words=("certificate_verify_failed", "certificate verify failed", "certificate has expired"),
        person_can_help=True,
    ),
    Rule(
        "rate_limited",
        _T,
        "The service limits the rate; the same request may pass later.",
        words=("rate limit", "too many requests", "overloaded", "retry later", "try again later"),
    ),
    Rule(
        "connection_trouble",
        _T,
        "The connection failed; the same request may pass.",
        words=(
            "connection reset",
            "connection refused",
            "connection aborted",
            "connection timed out",
            "connection error",
            "broken pipe",
            "temporary failure in name resolution",
            "name or service not known",
            "network is unreachable",
            "no route to host",
            "peer closed connection",
            "server disconnected",
            "read timed out",
            "readtimeout",
            "unexpected eof while reading",
        ),
    ),
    Rule(
        "service_trouble",
        _T,
        "The service could not answer now; the same request may pass later.",
        words=("service unavailable", "bad gateway", "gateway timeout", "gateway time-out", "internal server error"),
    ),
)
