"""Every refusal of the API as problem details (RFC 9457), and as an audit event when somebody known caused it."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler

from loops.engine.encoding.canonical import clean_json
from loops.services import access, audit
from loops.services.configuration import Unfit
from loops.services.forks import ForkConflict
from loops.services.people import NotPossible as PeopleNotPossible
from loops.services.steering import InvalidMessage, NotPossible
from loops.services.tasks import IdempotencyConflict, InvalidTask

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
AUDITED = {400, 403, 413, 415}


class Unavailable(exceptions.APIException):
    """The database does not answer, or has no connection to spare."""

    status_code = 503
    default_detail = "The database is not available at the moment. Try again shortly."
    default_code = "unavailable"
    wait = 2


class Conflict(exceptions.APIException):
    """The state of things does not permit it."""

    status_code = 409
    default_code = "conflict"


def handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn what a view raised into a problem; None leaves a bug to be a bug."""
    known = _translated(error)
    response = exception_handler(known, context)
    if response is None:
        return None
    problem = _problem(known, response, context["request"].path)
    _record(problem, context["request"])
    headers = {
        name: response[name] for name in ("Retry-After", "WWW-Authenticate", "Allow") if response.has_header(name)
    }
    return Response(problem, status=response.status_code, headers=headers, content_type=MEDIA_TYPE)


def _translated(error: Exception) -> Exception:
    """Domain exceptions, and Django's, in the terms of REST framework."""
    if isinstance(error, InvalidTask | Unfit):
        return exceptions.ValidationError(error.errors)
    if isinstance(error, InvalidMessage):
        return exceptions.ValidationError({"text": str(error)})
    if isinstance(error, IdempotencyConflict | ForkConflict):
        return Conflict(str(error), code="idempotency_conflict")
    if isinstance(error, NotPossible | PeopleNotPossible):
        return Conflict(str(error), code="not_possible")
    if isinstance(error, access.NotAllowed | PermissionDenied):
        return exceptions.PermissionDenied(str(error) or None)
    if isinstance(error, OperationalError):
        log.error("the API could not reach the database: %s", error)
        return Unavailable()
    if isinstance(error, Http404):
        return exceptions.NotFound()
    return error


def _problem(error: Exception, response: Response, path: str) -> dict[str, Any]:
    status = HTTPStatus(response.status_code)
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "detail": _detail(error),
        "instance": path,
        "code": _code(error),
    }
    if isinstance(error, exceptions.ValidationError):
        problem["detail"] = "Some fields are not acceptable."
        problem["errors"] = dict(_flat(error.detail))
    cleaned: dict[str, Any] = clean_json(problem)  # it repeats what was sent, lone surrogates and all
    return cleaned


def _detail(error: Exception) -> str:
    return str(getattr(error, "detail", error))


def _code(error: Exception) -> str:
    if isinstance(error, exceptions.ValidationError):
        return "invalid"
    codes = error.get_codes() if isinstance(error, exceptions.APIException) else "error"
    return codes if isinstance(codes, str) else "error"


def _flat(detail: Any, path: str = "") -> list[tuple[str, str]]:
    """Nested error details as (dotted field, message)."""
    if isinstance(detail, dict):
        return [pair for key, inner in detail.items() for pair in _flat(inner, f"{path}.{key}" if path else str(key))]
    if isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        return [pair for index, inner in enumerate(detail) for pair in _flat(inner, f"{path}[{index}]")]
    messages = detail if isinstance(detail, list) else [detail]
    return [(path or "body", " ".join(str(message) for message in messages))]


def _record(problem: dict[str, Any], request: Any) -> None:
    """Log a refused request of a person we know; strangers must not be able to fill the audit log."""
    if problem["status"] not in AUDITED:
        return
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return
    detail = {"method": request.method, **{key: problem[key] for key in ("status", "instance", "detail", "code")}}
    audit.record("api.refused", actor=user, detail={**detail, "errors": problem.get("errors", {})})
