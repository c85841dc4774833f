"""The answer where a view failed: an error of our own, or a database that cannot be had at the moment."""

from __future__ import annotations

import sys

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.views import defaults

from agentops.edge.api_errors import as_response
from agentops.edge.request_limits import Refusal
from loops.api.problems import Unavailable


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's ``handler500``, called while the exception is being handled; it has been logged."""
    if isinstance(sys.exc_info()[1], OperationalError):
        return as_response(Refusal(Unavailable.status_code, Unavailable.default_detail), request.path_info)
    return defaults.server_error(request)
