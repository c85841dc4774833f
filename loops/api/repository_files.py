"""The `agentops.toml` of a workspace, for programs: what it states, and who accepts it (SPEC X2, T2)."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import inputs
from loops.api.endpoint import Endpoint
from loops.api.outputs import CriterionOutput
from loops.models import Workspace
from loops.querysets import OPERATE
from loops.services import repository_files as service

ACTIONS = ("accept", "decline", "drop")


class TomlAction(inputs.Strict):
    """Accept the content with this hash, go on without it, or use none any more."""

    action = serializers.ChoiceField(choices=ACTIONS)
    sha256 = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=64, help_text="Of the content that you looked at."
    )
    allow = serializers.BooleanField(
        required=False, default=False, help_text="Let its set-up reach the hosts that it names. Superusers only."
    )


class StatedOutput(serializers.Serializer):
    """One thing that it states."""

    what = serializers.CharField()
    value = serializers.CharField()


class TomlOutput(serializers.Serializer):
    """``state`` is none, new, accepted, changed, declined, gone, unusable, or elsewhere: the folder is not on this
    machine. ``sha256``, ``states`` and ``diff`` are of what lies in the folder; ``criteria`` and ``protected`` hold."""

    state = serializers.CharField()
    said = serializers.CharField(help_text="How it stands, in a sentence; of an unusable one why.")
    sha256 = serializers.CharField()
    states = StatedOutput(many=True)
    diff = serializers.CharField(help_text="From what was accepted.")
    accepted_by = serializers.CharField(allow_null=True)
    accepted_at = serializers.DateTimeField(allow_null=True)
    criteria = CriterionOutput(many=True)
    protected = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField(), help_text="What to know of a file just accepted.")


class WorkspaceToml(Endpoint):
    """What a workspace's own file states of it. For operators and admins of its project."""

    @extend_schema(responses={200: TomlOutput}, operation_id="workspaces_toml_retrieve")
    def get(self, request: Request, pk: Any) -> Response:
        """How it stands now."""
        return _answer(self._row(request, pk))

    @extend_schema(request=TomlAction, responses={200: TomlOutput}, operation_id="workspaces_toml_act")
    def post(self, request: Request, pk: Any) -> Response:
        """Decide about it. Admins of the project only; hosts for superusers only."""
        row = self._row(request, pk)
        cleaned = TomlAction(data=request.data)
        cleaned.is_valid(raise_exception=True)
        given, notes = cleaned.validated_data, list[str]()
        sha256, allow = given["sha256"], given["allow"]
        if given["action"] == "accept":
            notes = service.accept(actor=request.user, workspace=row, sha256=sha256, allow=allow)
        elif given["action"] == "decline":
            service.decline(actor=request.user, workspace=row, sha256=sha256)
        else:
            service.drop(actor=request.user, workspace=row)
        return _answer(self._row(request, pk), notes)

    def _row(self, request: Request, pk: Any) -> Workspace:
        rows = Workspace.objects.visible_to(request.user, OPERATE).select_related("project", "toml_by")
        row: Workspace = get_object_or_404(rows, pk=pk)
        return row


def _answer(row: Workspace, notes: list[str] | None = None) -> Response:
    standing = service.look(row)
    about = {name: getattr(standing, name) for name in ("state", "said", "diff")}
    about |= {"sha256": standing.found.sha256 if standing.found else "", "criteria": row.criteria}
    about |= {"states": [{"what": what, "value": value} for what, value in standing.lines], "protected": row.protected}
    about |= {"accepted_by": row.toml_by and row.toml_by.get_username(), "accepted_at": row.toml_at}
    return Response(TomlOutput({**about, "notes": notes or []}).data)
