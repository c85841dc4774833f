"""What every address of the API shares: one parser, one pace, one lookup, and answers that nobody keeps.

Each view of ``/api/`` is an ``Endpoint``; a test reads the table of addresses and refuses one that is not.
"""

from __future__ import annotations

from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import APIRootView, DefaultRouter
from rest_framework.views import APIView

from loops.api.parsers import StrictJSONParser
from loops.api.throttles import ReadThrottle, WriteThrottle


class Endpoint(APIView):
    """A view of the API. What a person may see is decided by ``visible_to`` alone."""

    parser_classes = [StrictJSONParser]
    throttle_classes = [ReadThrottle, WriteThrottle]

    def visible(self, objects: Any) -> Any:
        """Rows the caller may see; a schema generator sees none."""
        if getattr(self, "swagger_fake_view", False):
            return objects.none()
        return objects.visible_to(self.request.user)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Response:
        """Keep what one person may read out of every cache, a shared browser's too."""
        answer: Response = super().finalize_response(request, response, *args, **kwargs)
        answer.headers["Cache-Control"] = "no-store"
        return answer


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
