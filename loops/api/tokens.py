"""Your own API token. Shown once, at the moment it is made."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api.endpoint import Endpoint
from loops.api.views import PROBLEMS
from loops.services.people import new_token


class TokenOutput(serializers.Serializer):
    """Send it as ``Authorization: Token <token>``."""

    token = serializers.CharField()


class MyToken(Endpoint):
    """Make a token for scripts."""

    @extend_schema(request=None, responses={201: TokenOutput, **PROBLEMS})
    def post(self, request: Request) -> Response:
        """Make a new token; the one before stops working."""
        token = new_token(actor=request.user, user=request.user)
        return Response({"token": token}, status=201, headers={"Cache-Control": "no-store"})
