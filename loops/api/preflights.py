"""The commands of acceptance criteria, run once before a task is submitted: as under *Try the commands* of New task."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import inputs
from loops.api.endpoint import Endpoint
from loops.models import Agent, Preflight, Project, Workspace
from loops.services import preflight as service


class PreflightInput(inputs.Strict):
    """What a task would be submitted with."""

    project = serializers.CharField(help_text="Id or slug.")
    agent = serializers.CharField(help_text="Id or name.")
    workspace = serializers.CharField(
        required=False, allow_blank=True, default="", help_text="Id or name; empty: an empty folder."
    )
    criteria = inputs.CriterionInput(many=True)


class CommandOutput(serializers.Serializer):
    """``status`` is passed (it passes now), failed, error (it cannot be checked here) or refused."""

    command = serializers.CharField()
    status = serializers.CharField()
    said = serializers.CharField(help_text="In one line, such as: 7 failed, 13 passed.")
    output = serializers.CharField()
    duration_ms = serializers.IntegerField()


class PreflightOutput(serializers.Serializer):
    """``state`` is waiting, running or done; by ``until`` its worker was lost if it is not done."""

    id = serializers.UUIDField()
    state = serializers.CharField()
    results = CommandOutput(many=True)
    asked_at = serializers.DateTimeField()
    until = serializers.DateTimeField()


class Preflights(Endpoint):
    """Commands to try."""

    @extend_schema(request=PreflightInput, responses={202: PreflightOutput}, operation_id="preflights_create")
    def post(self, request: Request) -> Response:
        """Have a worker run them on a copy of the workspace, one after the other. One order of yours at a time."""
        cleaned = PreflightInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        given = dict(cleaned.validated_data)
        project = self.named(Project, given["project"], "slug")
        scope, folder = {"project": project}, given["workspace"]
        asked = service.ask(
            actor=request.user,
            project=project,
            agent=self.named(Agent, given["agent"], "name", **scope),
            workspace=self.named(Workspace, folder, "name", **scope) if folder else None,
            criteria=given["criteria"],
        )
        return Response(PreflightOutput(asked).data, status=202)


class OnePreflight(Endpoint):
    """Commands that you tried."""

    @extend_schema(responses={200: PreflightOutput}, operation_id="preflights_retrieve")
    def get(self, request: Request, pk: Any) -> Response:
        """What they say. It is kept for a day."""
        mine = get_object_or_404(Preflight, pk=pk, asked_by=request.user)
        return Response(PreflightOutput(mine).data)
