"""One classification of provider failures, whatever SDK they came through (SPEC E1, E6).

The order of the questions matters: what the provider says of retrying wins, except where no retry can ever help
(wrong key, unknown model, money used up). In a stream that had begun well, the status and the type inside of the error
count: the HTTP status of 200 was sent before anybody knew.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from loops.engine.ports import ModelError
from loops.engine.text.failure_words import CHALLENGE_STATUS, CHALLENGES, RATE_LIMITED
from loops.engine.text.truncation import shortened
from loops.engine.values import FailureKind
from loops.llm.context_overflow import is_too_long, sizes
from loops.llm.text import clean_text
from loops.masking import known

MAX_MESSAGE = 600
_HOPELESS_STATUS = frozenset({401, 402, 403, 404})
_REFUSED_STATUS = frozenset({401, 403})
"""Of keys and accounts; some providers and gateways send them for a rate as well, and say so in words only."""
_ACCOUNT_STATUS = frozenset({401, 402, 403, 429})
"""Said of the account or its rate, whatever else the words name."""
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_HOPELESS_CODES = frozenset(
    {
        "authentication_error",
        "authenticationerror",
        "unauthenticated",
        "permission_error",
        "permissiondeniederror",
        "permission_denied",
        "not_found_error",
        "notfounderror",
        "billing_error",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_found",
        "account_deactivated",
        "billing_hard_limit_reached",
    }
)
_SYSTEMATIC_CODES = frozenset(
    {
        "invalid_request_error",
        "invalid_request",
        "invalid_argument",
        "bad_request",
        "bad_request_error",
        "badrequesterror",
        "validation_error",
        "validationerror",
        "unprocessableentityerror",
        "request_too_large",
        "context_length_exceeded",
        "exceed_context_size_error",
        "not_supported_error",
    }
)
_NO_MONEY = re.compile(r"credit balance is too low|insufficient[_ ]quota", re.IGNORECASE)
_NO_QUOTA = re.compile(r"exceeded your current quota", re.IGNORECASE)
_SOON = re.compile(r"please retry in|per_?minute", re.IGNORECASE)
_NOT_SOON = re.compile(r"per[_ ]?day|limit: 0\b", re.IGNORECASE)
"""Gemini has the same words for every quota, and bids to retry in seconds for that of a day and one of nothing too:
which it is stands in the ids of its details."""
_RETRY_IN = re.compile(r"please retry in ([0-9]{1,5}(?:\.[0-9]{1,12})?)s\b", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"\bmodel\b[^.\n]{0,160}?(?:not found|(?:does|did) ?n[o']t exist|not exist\b|is not a valid model)"
    r"|(?:unknown|invalid|no such|unsupported|unrecogni[sz]ed) model\b(?! (?:output|response|behaviou?r))"
    r"|is not a valid model\b|model_?not_?found|deployment_?not_?found|no models? (?:is |are )?loaded",
    re.IGNORECASE,
)
_DETAIL = ("message", "detail", "error_description", "reason", "msg", "error", "title")
"""Where bodies of errors hold words for people, the best first."""


def http_failure(status: int, body: object, headers: Mapping[str, str], secret: str = "") -> ModelError:
    """From an answer that is an error by its status, or an error event in a stream (status 200)."""
    code, message = error_parts(body)
    inside = status_inside(body) if status == 200 else 0
    text, spoken = f"{code} {message}", inside or status
    if spoken in CHALLENGE_STATUS and is_challenge(body):
        code, kind = "challenge_page", FailureKind.TRANSIENT
    elif _NO_QUOTA.search(text) and is_for_a_moment(body):
        code, kind = "rate_limit_error", FailureKind.TRANSIENT
    elif _NO_MONEY.search(text) or _NO_QUOTA.search(text):
        code, kind = (code if code in _HOPELESS_CODES else "insufficient_quota"), FailureKind.UNRECOVERABLE
    elif spoken in _REFUSED_STATUS and any(words in text.lower() for words in RATE_LIMITED):
        code, kind = "rate_limit_error", FailureKind.TRANSIENT
    elif is_too_long(text):
        code, kind = "prompt_too_long", FailureKind.SYSTEMATIC
    elif spoken not in _ACCOUNT_STATUS and _NO_MODEL.search(text):
        code, kind = (code if code == "not_found_error" else "model_not_found"), FailureKind.UNRECOVERABLE
    else:
        kind = _kind(spoken, code.lower(), headers.get("x-should-retry", ""))
    error = ModelError(
        _told(spoken, message, secret),
        kind=kind,
        code=code or (f"http_{spoken}" if spoken != 200 else "stream_error"),
        status=spoken,
        retry_after_s=(retry_after(headers) if status != 200 else None) or _retry_in(message),
    )
    if code == "prompt_too_long":
        error.window, error.counted = sizes(body, message)
    return error


def page_failure(page: bytes) -> ModelError:
    """From a web page where an answer was wanted, without an error in its status."""
    if is_challenge(page):
        told = "the endpoint answered with a page that wants to see a browser"
        return ModelError(told, kind=FailureKind.TRANSIENT, code="challenge_page")
    return ModelError("the endpoint answered with a web page", kind=FailureKind.SYSTEMATIC, code="not_an_api")


def is_challenge(body: object) -> bool:
    """A page, by its words, of somebody in front of the provider who wants to see a browser?"""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body if isinstance(body, str) else ""
    lowered = text.lower()
    return "<html" in lowered and any(words in lowered for words in CHALLENGES)


def is_for_a_moment(body: object) -> bool:
    """Is the quota that is used up there again in a minute, by what the whole error says of it?"""
    whole = str(body)
    return bool(_SOON.search(whole)) and not (_NOT_SOON.search(whole) or _NO_MONEY.search(whole))


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
    if isinstance(body, list) and len(body) == 1:
        body = body[0]  # as Gemini sends it
    if not isinstance(body, Mapping):
        return "", _from_text(str(body)) if body else ""
    error = body.get("error", body)
    if not isinstance(error, Mapping):
        return str(body.get("type") or "") if isinstance(body.get("type"), str) else "", _words(body)
    code = next((error[key] for key in ("code", "type", "status") if _is_code(error.get(key))), "")
    return str(code), "; ".join(dict.fromkeys(filter(None, (_words(error), _upstream(error)))))


def status_inside(body: object) -> int:
    """The HTTP status that an error in a stream names, 0 where it names none."""
    if isinstance(body, bytes | str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return 0
    if not isinstance(body, Mapping):
        return 0
    inner = body.get("error")
    for error in (inner if isinstance(inner, Mapping) else {}, body):
        for key in ("status", "status_code", "http_status", "code"):
            found = str(error.get(key) or "")
            if found.isdecimal() and 400 <= int(found[:4]) <= 599:
                return int(found)
    return 0


def _is_code(value: object) -> bool:
    return isinstance(value, str) and bool(value) and not value.isdecimal()


def _words(error: Mapping[str, Any]) -> str:
    """What the body of an error says to people, whatever it calls it."""
    for key in _DETAIL:
        said = error.get(key)
        if isinstance(said, Mapping):
            said = _words(said)
        elif isinstance(said, list | tuple):
            said = "; ".join(_words(one) if isinstance(one, Mapping) else str(one) for one in said[:5])
        if said and isinstance(said, str):
            return said
    return ""


def _upstream(error: Mapping[str, Any]) -> str:
    """What the provider behind a router said: the router itself often says no more than that there was an error."""
    more = error.get("metadata")
    if not isinstance(more, Mapping) or not more.get("raw"):
        return ""
    _, raw = error_parts(more["raw"]) if isinstance(more["raw"], bytes | str | Mapping) else ("", "")
    return f"{more['provider_name']}: {raw}" if raw and more.get("provider_name") else raw


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


def _retry_in(message: str) -> float | None:
    """Seconds that only the words name."""
    found = _RETRY_IN.search(message)
    return float(found[1]) if found else None


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
    text = known().text(clean_text(message))
    if len(secret) >= 6:
        text = text.replace(secret, "[key]")
    return shortened(text, MAX_MESSAGE)


def number(value: Any) -> int:
    """A count from the wire, 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
