"""How the API describes itself (OpenAPI): views say what they give, and what all of them may refuse is said here, once.

A status that an operation answers with stands in its description, or a test that asks every operation fails.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import Direction, OpenApiResponse

from loops.api.inputs import Strict
from loops.api.outputs import ProblemOutput
from loops.api.problems import MEDIA_TYPE

WHY = {
    400: "Something in the request is not acceptable. `errors` names it by field, where it is a field.",
    401: "The request has no token and no session, or an invalid or expired one.",
    403: "You may see this, but may not do it; or a session's request has no CSRF token.",
    404: "You may see nothing by that id, or the cursor is of no page.",
    406: "`Accept` asks for another type than this address gives.",
    408: "The request took too long to arrive. Nothing was changed.",
    409: "The current state does not allow it, or somebody else was first.",
    413: "The body is longer than this address takes. Nothing was changed.",
    414: "The query is longer than is read.",
    415: "The body is no JSON.",
    422: "Well formed, but no decision that this gate can take. `errors` names what is wrong by field.",
    429: "Too many requests, or too many invalid tokens. `Retry-After` says when to retry.",
    431: "The headers are longer than is read.",
    503: "Too much is asked at once, or the database does not answer. `Retry-After` says when to come back.",
}
"""What a status means wherever it is answered, to whoever writes a client."""
ALWAYS = (400, 401, 403, 406, 408, 413, 414, 429, 431, 503)
"""May be the answer to any request."""
WITH_A_BODY = (409, 415)
NOT_THERE = 404


def refused(*statuses: int) -> dict[Any, Any]:
    """For ``extend_schema(responses=...)``: what one operation refuses beside what all do."""
    return {(status, MEDIA_TYPE): OpenApiResponse(ProblemOutput, WHY[status]) for status in statuses}


class Described(AutoSchema):
    """An operation with every refusal that it shares with others."""

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        said: dict[str, Any] = super()._get_response_bodies(direction)
        statuses = [*ALWAYS]
        if self.method != "GET":
            statuses += WITH_A_BODY
        if "{" in self.path or self._is_list_view():
            statuses.append(NOT_THERE)
        shared = {str(status): self._shared(status, direction).ref for status in statuses}
        return {**said, **{status: answer for status, answer in sorted(shared.items()) if status not in said}}

    def _map_basic_serializer(self, serializer: Any, direction: Direction) -> dict[str, Any]:
        """Say of an input that it takes no other fields."""
        schema: dict[str, Any] = super()._map_basic_serializer(serializer, direction)
        return {**schema, "additionalProperties": False} if isinstance(serializer, Strict) else schema

    def _shared(self, status: int, direction: Direction) -> ResolvedComponent:
        """Stands once among the components, however many operations name it."""
        answer = self._get_response_for_code(refused(status)[status, MEDIA_TYPE], str(status), [MEDIA_TYPE], direction)
        name = HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")
        component = ResolvedComponent(name=name, type="responses", schema=answer, object=status)
        self.registry.register_on_missing(component)
        return component
