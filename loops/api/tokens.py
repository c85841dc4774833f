"""Your own API tokens. Each is shown once, at the moment it is made."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api.endpoint import Endpoint
from loops.api.inputs import Strict
from loops.services import tokens as service


class TokenInput(Strict):
    """Both may be left out."""

    name = serializers.CharField(
        required=False, default="default", max_length=service.LONGEST_NAME, help_text="One of the same name ends."
    )
    days = serializers.IntegerField(required=False, default=service.DAYS, min_value=1, max_value=service.MOST_DAYS)


class TokenOutput(serializers.Serializer):
    """A token that works; what it is itself is not kept."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To the hour.")


class NewTokenOutput(TokenOutput):
    """Send it as ``Authorization: Token <token>``."""

    token = serializers.CharField()


class MyToken(Endpoint):
    """Tokens for scripts."""

    @extend_schema(responses={200: TokenOutput(many=True)})
    def get(self, request: Request) -> Response:
        """List those that work, newest first."""
        return Response(TokenOutput(service.tokens_of(request.user), many=True).data)

    @extend_schema(request=TokenInput, responses={201: NewTokenOutput})
    def post(self, request: Request) -> Response:
        """Make a token, shown once; one of the same name stops working. A new password ends all of them.

        Only a person who is logged in may: a token makes no tokens, or none would ever end.
        """
        if request.auth is not None:
            raise PermissionDenied("A token makes no tokens. Log in, or use the command: agentops token USER.")
        asked = TokenInput(data=request.data or {})
        asked.is_valid(raise_exception=True)
        token, row = service.new_token(actor=request.user, user=request.user, **asked.validated_data)
        return Response({**TokenOutput(row).data, "token": token}, status=201)


class OneToken(Endpoint):
    """One of your tokens."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: Any) -> Response:
        """End it at once."""
        if not service.end_token(actor=request.user, user=request.user, token_id=pk):
            raise NotFound
        return Response(status=204)
