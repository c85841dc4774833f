"""API tokens that let nobody in are counted as wrong passwords are, and whoever guesses waits (SPEC S4).

A token has 240 random bits, so nobody finds one; but each guess costs a look into the database, and whoever guesses
is to be seen. Different tokens are counted, not requests: a script whose token has expired asks with the same one for
ever, and keeps nobody out who works behind the same address.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from urllib.parse import unquote

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

from agentops.edge import client_address, refusals
from agentops.edge.api_errors import as_response
from agentops.edge.request_limits import UNDER_API, Refusal
from agentops.login.attempts import WAIT, knows_addresses
from loops.services import audit

log = logging.getLogger(__name__)
MOST = 25
"""Different tokens from one address that may let nobody in, before it waits: as many as failed log-ins."""
IN_AN_ADDRESS = re.compile(r"\bao_[A-Za-z0-9_-]{40}")
SAY_IT_IN_A_HEADER = Refusal(
    400,
    "There is an API token in the address, where logs and histories keep it. End that token, make a new one, and send "
    "it as the header Authorization: Token.",
)
WAITS = Refusal(429, "Too many invalid tokens from this address. Tokens from it are not checked for 15 minutes.")
_SECONDS = int(WAIT.total_seconds())


class Tokens:
    """Middleware in front of whatever takes a token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Refuse a token in the address, let an address wait that guessed, and count what lets nobody in."""
        where, path = client_address.of_request(request), request.path_info
        if IN_AN_ADDRESS.search(unquote(request.get_full_path())):
            refusals.counts.add("token.in_address", where, SAY_IT_IN_A_HEADER.status, IN_AN_ADDRESS.sub("ao_...", path))
            return as_response(SAY_IT_IN_A_HEADER, UNDER_API)
        token = _token_of(request)
        if not token:
            return self.get_response(request)
        if _waits(where):
            refusals.counts.add("token.refused", where, WAITS.status, path)
            return _with_wait(as_response(WAITS, path))
        response = self.get_response(request)
        if response.status_code == 401:
            refusals.counts.add("token.refused", where, response.status_code, path)
            _count(where, token)
        return response


def _token_of(request: HttpRequest) -> str:
    said = request.META.get("HTTP_AUTHORIZATION", "")
    return str(said) if request.path_info.startswith(UNDER_API) else ""


def _waits(where: str) -> bool:
    """A cache that is away lets everybody on: losing it must lose nothing."""
    try:
        return knows_addresses() and int(cache.get(_key(where), 0)) >= MOST
    except Exception as error:  # any cache backend's own
        log.warning("guessed tokens not counted: %s", error)
        return False


def _count(where: str, token: str) -> None:
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    try:
        if not cache.add(f"{_key(where)}:{digest}", 1, _SECONDS):
            return
        cache.add(_key(where), 0, _SECONDS)
        if cache.incr(_key(where)) == MOST and knows_addresses():
            audit.record("token.locked", actor=None, detail={"address": where, "minutes": _SECONDS / 60})
    except Exception as error:  # any cache backend's own; a count that ended between two lines among them
        log.warning("a token that lets nobody in was not counted: %s", error)


def _key(where: str) -> str:
    return f"token-guesses:{client_address.counted(where)}"


def _with_wait(response: HttpResponse) -> HttpResponse:
    response["Retry-After"] = str(_SECONDS)
    return response
