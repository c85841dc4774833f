"""The set-up of a workspace, for programs: its command, variables and grants, run and follow it (SPEC J4, T2)."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import inputs
from loops.api.endpoint import Endpoint
from loops.models import Setup, Workspace
from loops.querysets import OPERATE
from loops.services import setups as service
from loops.workspaces.variables import LONGEST_NAME

ACTIONS = ("run", "stop", "fetch")


class SetupChange(inputs.Strict):
    """What is not sent stays as it is."""

    command = inputs.RawText(required=False, allow_blank=True, max_length=service.LONGEST_COMMAND)
    tests = inputs.RawText(required=False, allow_blank=True, max_length=service.LONGEST_TESTS)
    variables = serializers.DictField(
        child=inputs.RawText(allow_blank=True), required=False, help_text="By name. Replaces the others."
    )
    hosts = serializers.ListField(
        child=serializers.CharField(max_length=300), required=False, help_text="Superusers only. Replaces the others."
    )
    secrets = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_NAME),
        required=False,
        help_text="Names of variables of the worker. Superusers only. Replaces the others.",
    )


class SetupAction(inputs.Strict):
    """Run it, fetch the repository, or stop what is under way."""

    action = serializers.ChoiceField(choices=ACTIONS)


class RequestsOutput(serializers.Serializer):
    """Requests to one host, with bytes as the set-up saw them; ``why_not`` says why they were not let through."""

    host = serializers.CharField()
    count = serializers.IntegerField()
    sent = serializers.IntegerField()
    received = serializers.IntegerField()
    why_not = serializers.CharField()


class SetupRunOutput(serializers.ModelSerializer):
    """``state`` is waiting, running, ready, failed, stopped or lost; by ``until`` its worker is if it is not done.
    ``commit`` is what was fetched."""

    requests = RequestsOutput(many=True)
    commit = serializers.CharField()

    class Meta:
        model = Setup
        fields = (
            *("id", "state", "why_not", "command", "variables", "hosts", "secrets", "log", "requests", "commit"),
            *("files", "size", "machine", "ordered_at", "until", "ended_at"),
        )
        read_only_fields = fields


class SetupOutput(serializers.Serializer):
    """``latest`` is null where it has not run yet, ``fetch`` where no repository was fetched yet."""

    command = serializers.CharField()
    tests = serializers.CharField()
    variables = serializers.DictField(child=serializers.CharField(allow_blank=True))
    hosts = serializers.ListField(child=serializers.CharField())
    secrets = serializers.ListField(child=serializers.CharField())
    latest = SetupRunOutput(allow_null=True)
    fetch = SetupRunOutput(allow_null=True)


class WorkspaceSetup(Endpoint):
    """How a workspace is set up and tested. For operators and admins of its project."""

    @extend_schema(responses={200: SetupOutput}, operation_id="workspaces_setup_retrieve")
    def get(self, request: Request, pk: Any) -> Response:
        """With the latest set-up and its log."""
        return _answer(self._row(request, pk))

    @extend_schema(request=SetupChange, responses={200: SetupOutput}, operation_id="workspaces_setup_change")
    def patch(self, request: Request, pk: Any) -> Response:
        """Change it. Admins of the project only; hosts and secrets for superusers only."""
        row = self._row(request, pk)
        cleaned = SetupChange(data=request.data)
        cleaned.is_valid(raise_exception=True)
        service.state(actor=request.user, workspace=row, stated=service.Stated(**cleaned.validated_data))
        return _answer(row)

    @extend_schema(request=SetupAction, responses={202: SetupOutput}, operation_id="workspaces_setup_act")
    def post(self, request: Request, pk: Any) -> Response:
        """Have a worker run it or fetch the repository, or stop what is under way."""
        row = self._row(request, pk)
        cleaned = SetupAction(data=request.data)
        cleaned.is_valid(raise_exception=True)
        if cleaned.validated_data["action"] == "run":
            service.run(actor=request.user, workspace=row)
        elif cleaned.validated_data["action"] == "fetch":
            service.fetch(actor=request.user, workspace=row)
        else:
            service.stop(actor=request.user, workspace=row)
        return _answer(row, status=202)

    def _row(self, request: Request, pk: Any) -> Workspace:
        row: Workspace = get_object_or_404(Workspace.objects.visible_to(request.user, OPERATE), pk=pk)
        return row


def _answer(row: Workspace, status: int = 200) -> Response:
    about = {"command": row.setup_command, "tests": row.test_command, "variables": row.variables}
    about |= {"hosts": row.granted_hosts, "secrets": row.granted_secrets}
    about |= {"latest": row.latest(Setup.Kind.SETUP), "fetch": row.latest(Setup.Kind.FETCH)}
    return Response(SetupOutput(about).data, status=status)
