"""Text that Postgres cannot hold does not come in by an address: no name, id or word has a NUL in it."""

from collections.abc import Callable
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse

from agentops.edge import refusals
from agentops.edge.api_errors import as_response
from agentops.edge.client_address import of_request
from agentops.edge.request_limits import Refusal

NUL = Refusal(400, "The address has a NUL character in it. Nothing was changed; take it out and ask again.")


class Storable:
    """Middleware that refuses an address, or a query, with a NUL in it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer here, or let the request go on."""
        if "\0" not in request.path_info and "\0" not in unquote(request.META.get("QUERY_STRING", "")):
            return self.get_response(request)
        refusals.counts.add("request.refused", of_request(request), NUL.status, request.path_info)
        return as_response(NUL, request.path_info)
