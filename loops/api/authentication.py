"""Who a request of a program comes from: ``Authorization: Token ao_...``."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed

from loops.services.tokens import who_has


class HashedTokens(TokenAuthentication):
    """Finds a token by its hash. One that is unknown, over or ended is answered alike."""

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        """Return (user, token), or raise AuthenticationFailed."""
        token = who_has(key)
        if token is None:
            raise AuthenticationFailed("This token is unknown, has expired or was ended. Make a new one.")
        return token.user, token
