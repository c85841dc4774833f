"""Below ``/api/`` every refusal is problem details, also those that the API's own views never hear of.

Addresses that are not there, hosts that are not ours, forms without a CSRF token, errors of our own: Django answers
them with pages, and a program that reads JSON would choke on one.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from agentops.edge.request_limits import UNDER_API, Refusal

SAID = {
    400: "The request could not be understood. Check its address, its Host and its headers.",
    403: "Permission denied. Log in again, or ask somebody with the required role.",
    404: "There is nothing at this address. /api/schema/ lists the addresses.",
    405: "This address does not take that method. The Allow header lists those it takes.",
    500: "AgentOps failed; the server's log says how. Changing the request does not help: tell whoever runs AgentOps.",
}
"""By status, where a view has not said more."""
KEPT = ("Allow", "Retry-After")


class Problems:
    """Middleware that turns a page about a failure into problem details; with DEBUG on, Django's own page stays."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Look at the answer on its way out."""
        response = self.get_response(request)
        if response.status_code < 400 or not request.path_info.startswith(UNDER_API) or _is_json(response):
            return response
        if settings.DEBUG and response.status_code >= 500:
            return response
        refusal = Refusal(response.status_code, SAID.get(response.status_code, response.reason_phrase))
        answer = as_response(refusal, request.path_info)
        for name in KEPT:
            if name in response:
                answer[name] = response[name]
        answer.cookies = response.cookies
        return answer


def as_response(refusal: Refusal, path: str) -> HttpResponse:
    """A refusal in Django's terms; whether the connection stays open is not Django's question."""
    headers, body = refusal.answer(path)
    said = {name.decode(): value.decode() for name, value in headers if name != b"Connection"}
    answer = HttpResponse(body, status=refusal.status, headers=said)
    answer._has_been_logged = True  # type: ignore[attr-defined]  # by whoever refused
    return answer


def _is_json(response: HttpResponse) -> bool:
    return response.get("Content-Type", "").partition(";")[0].endswith("json")
