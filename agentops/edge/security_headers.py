"""Response headers that Django and django-csp leave to us."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse


class SecurityHeaders:
    """Turns off what pages never use, and relaxes the content policy where other people's inline code runs."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Add the headers on the way out."""
        response = self.get_response(request)
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
        )
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if request.path.startswith(settings.RELAXED_CSP_PREFIXES):
            response._csp_replace = settings.RELAXED_CSP  # type: ignore[attr-defined]  # read by CSPMiddleware
        return response
