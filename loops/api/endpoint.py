"""What every address of the API shares: one parser, one pace, one lookup, and answers that nobody keeps.

Each view of ``/api/`` is an ``Endpoint``; a test reads the table of addresses and refuses one that is not.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Q
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import APIRootView, DefaultRouter
from rest_framework.views import APIView

from loops.api.parsers import StrictJSONParser
from loops.api.throttles import ReadThrottle, WriteThrottle
from loops.models import Workspace
from loops.services.submission import InvalidTask


class Endpoint(APIView):
    """A view of the API. What a person may see is decided by ``visible_to`` alone."""

    parser_classes = [StrictJSONParser]
    throttle_classes = [ReadThrottle, WriteThrottle]

    def visible(self, objects: Any) -> Any:
        """Rows the caller may see; a schema generator sees none."""
        if getattr(self, "swagger_fake_view", False):
            return objects.none()
        return objects.visible_to(self.request.user)

    def named(self, model: Any, reference: str, name: str, **scope: Any) -> Any:
        """One visible row by id or by name. What you may not see does not exist."""
        by_id = {"pk": reference} if model is not Workspace else {"pk": _uuid_or_none(reference)}
        found = self.visible(model.objects).filter(Q(**by_id) | Q(**{name: reference}), **scope).first()
        if found is None:
            raise InvalidTask({model._meta.model_name: "There is none by that id or name."})
        return found

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Response:
        """Keep what one person may read out of every cache, a shared browser's too."""
        answer: Response = super().finalize_response(request, response, *args, **kwargs)
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _uuid_or_none(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


class AsItIs(DefaultContentNegotiation):
    """For files, which have one type whatever ``Accept`` asks for; a refusal is problem details all the same."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> tuple[Any, str]:
        """Refuse nobody."""
        return renderers[0], renderers[0].media_type


class Root(Endpoint, APIRootView):
    """Where the API begins: the addresses of its lists."""


class Router(DefaultRouter):
    """Addresses of view sets, JSON only: no ``.json`` or ``.api`` behind them."""

    include_format_suffixes = False
    APIRootView = Root

    def __init__(self, *, root: bool = False) -> None:
        super().__init__(use_regex_path=False)
        self.include_root_view = root
