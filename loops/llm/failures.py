"""One classification of provider failures, whatever SDK they came through (SPEC E1, E6).

The order of the questions matters: what the provider says of retrying wins, except where no retry can ever help
(wrong key, unknown model, money used up).
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind
from loops.llm.clean import clean_text

MAX_MESSAGE = 600
_HOPELESS_STATUS = frozenset({401, 402, 403, 404})
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_HOPELESS_CODES = frozenset(
    {
        "authentication_error",
        "permission_error",
        "not_found_error",
        "billing_error",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_found",
        "account_deactivated",
        "billing_hard_limit_reached",
    }
)
_SYSTEMATIC_CODES = frozenset({"invalid_request_error", "request_too_large", "context_length_exceeded"})
_NO_MONEY = re.compile(r"credit balance is too low|insufficient[_ ]quota|exceeded your current quota", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"prompt is too long|context_length_exceeded|maximum context length|exceeds? the context", re.IGNORECASE
)


def http_failure(status: int, body: object, headers: Mapping[str, str], secret: str = "") -> ModelError:
    """From an answer that is an error by its status, or an error event in a stream (status 200)."""
    code, message = error_parts(body)
    text = f"{code} {message}"
    if _NO_MONEY.search(text):
        code, kind = (code if code in _HOPELESS_CODES else "insufficient_quota"), FailureKind.UNRECOVERABLE
    elif _TOO_LONG.search(text):
        code, kind = "prompt_too_long", FailureKind.SYSTEMATIC
    else:
        kind = _kind(status, code, headers.get("x-should-retry", ""))
    return ModelError(
        _told(status, message, secret),
        kind=kind,
        code=code or (f"http_{status}" if status != 200 else "stream_error"),
        status=status,
        retry_after_s=retry_after(headers) if status != 200 else None,
    )


def wire_failure(code: str, message: str, secret: str = "") -> ModelError:
    """A connection that broke: worth the same request again."""
    return ModelError(_scrub(message, secret), kind=FailureKind.TRANSIENT, code=code)


def configuration_failure(code: str, message: str, secret: str = "") -> ModelError:
    """Something an admin has to put right."""
    return ModelError(_scrub(message, secret), kind=FailureKind.UNRECOVERABLE, code=code)


def error_parts(body: object) -> tuple[str, str]:
    """(code, message) from any shape an error body has: Anthropic's, OpenAI's, plain text, HTML."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return "", _from_text(str(body))
    if not isinstance(body, Mapping):
        return "", _from_text(str(body)) if body else ""
    error = body.get("error", body)
    if not isinstance(error, Mapping):
        return "", str(error)
    code = next((error[key] for key in ("code", "type") if isinstance(error.get(key), str) and error[key]), "")
    return str(code), str(error.get("message") or "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from retry-after-ms, or retry-after as a number or a date. None when absent or senseless."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            seconds = _until(value)
        if 0 <= seconds < 86_400:
            return seconds
    return None


def _kind(status: int, code: str, should_retry: str) -> FailureKind:
    if status in _HOPELESS_STATUS or code in _HOPELESS_CODES:
        return FailureKind.UNRECOVERABLE
    if should_retry == "true":
        return FailureKind.TRANSIENT
    if should_retry == "false":
        return FailureKind.UNRECOVERABLE if status == 429 else FailureKind.SYSTEMATIC
    if code in _SYSTEMATIC_CODES and status < 500:
        return FailureKind.SYSTEMATIC
    transient = status in _TRANSIENT_STATUS or status >= 500 or status in (0, 200)
    return FailureKind.TRANSIENT if transient else FailureKind.SYSTEMATIC


def _until(value: str) -> float:
    moment = email.utils.parsedate_tz(value)
    return email.utils.mktime_tz(moment) - time.time() if moment else -1.0


def _from_text(text: str) -> str:
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    if title:
        return f"an HTML page: {' '.join(title.group(1).split())}"
    return f"an HTML page: {' '.join(re.sub(r'<[^>]*>', ' ', text).split())}" if "<html" in text.lower() else text


def _told(status: int, message: str, secret: str) -> str:
    told = message or "no explanation"
    return _scrub(f"HTTP {status}: {told}" if status not in (0, 200) else told, secret)


def _scrub(message: str, secret: str) -> str:
    text = clean_text(message)
    if len(secret) >= 6:
        text = text.replace(secret, "[key]")
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def number(value: Any) -> int:
    """A count from the wire, 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
