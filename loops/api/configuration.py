"""What Admin sets up, for programs: workspaces, agents, models, access rules and policies (SPEC S1, S3, T2)."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import configuration_shapes as shapes
from loops.api import filters, outputs, pagination
from loops.api.endpoint import Endpoint
from loops.models import AccessRule, Agent, ModelConfig, Policy, Project, Workspace
from loops.querysets import OPERATE
from loops.services import model_tests
from loops.services.access_rules import ACCESS_RULES
from loops.services.agents import AGENTS
from loops.services.configuration import Kind
from loops.services.model_configs import MODELS
from loops.services.policy_settings import POLICIES
from loops.services.submission import InvalidTask
from loops.workspaces.configured import WORKSPACES


class Configured(Endpoint, viewsets.ReadOnlyModelViewSet):
    """Rows that are set up: read by who may see them, changed by whom Admin lets change them."""

    kind: ClassVar[Kind]
    change_class: ClassVar[Any]
    one_class: ClassVar[Any]
    """How a single one is given."""

    def retrieve(self, request: Request, *_: Any, **__: Any) -> Response:
        """One."""
        return Response(self._one(self.get_object()))

    def partial_update(self, request: Request, *_: Any, **__: Any) -> Response:
        """Change what is sent, and nothing else. Whoever may change it in Admin may here."""
        row = self.get_object()
        given = self._sent(request, self.change_class, partial=True)
        return Response(self._one(self.kind.change(actor=request.user, row=row, **given)))

    def _sent(self, request: Request, shape: Any, *, partial: bool = False) -> dict[str, Any]:
        """Arguments of the service."""
        cleaned = shape(data=request.data, partial=partial)
        cleaned.is_valid(raise_exception=True)
        fields = dict(cleaned.validated_data)
        known = {name: fields.pop(name) for name in ("reason", "allow") if name in fields}
        if "project" in fields:
            known["project"] = self.named(Project, fields.pop("project"), "slug")
        return {**known, "given": self.given(fields)}

    def given(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Fields of a row, of the fields that were sent."""
        return fields

    def _one(self, row: Any) -> Any:
        return self.one_class(row, context=self.get_serializer_context()).data


class Kept(Configured):
    """Rows that are made and deleted as well."""

    make_class: ClassVar[Any]

    def create(self, request: Request) -> Response:
        """Make one. Whoever may make it in Admin may here."""
        row = self.kind.make(actor=request.user, **self._sent(request, self.make_class))
        return Response(self._one(row), status=201)

    def destroy(self, request: Request, *_: Any, **__: Any) -> Response:
        """Delete one. 409 where something refers to it."""
        self.kind.delete(actor=request.user, row=self.get_object())
        return Response(status=204)


def described(make: Any, change: Any, one: Any) -> Any:
    """For the description of the API: what the operations of one kind take and give."""
    operations = {
        "retrieve": extend_schema(responses={200: one}),
        "partial_update": extend_schema(request=change, responses={200: one}),
    }
    if make:
        operations["create"] = extend_schema(request=make, responses={201: one})
        operations["destroy"] = extend_schema(responses={204: None})
    return extend_schema_view(**operations)


@described(shapes.WorkspaceInput, shapes.WorkspaceChange, shapes.OneWorkspaceOutput)
class Workspaces(Kept):
    """Folders that agents work in. For operators and admins of their projects."""

    kind = WORKSPACES
    serializer_class = shapes.WorkspaceOutput
    make_class, change_class, one_class = shapes.WorkspaceInput, shapes.WorkspaceChange, shapes.OneWorkspaceOutput
    lookup_value_converter = "uuid"
    pagination_class = pagination.ByName
    filterset_class = filters.WorkspaceFilter

    def get_queryset(self) -> Any:
        """Of projects in which one may submit tasks."""
        if getattr(self, "swagger_fake_view", False):
            return Workspace.objects.none()
        return Workspace.objects.visible_to(self.request.user, OPERATE).select_related("project", "allowed_by")


@described(shapes.AgentInput, shapes.AgentChange, outputs.AgentOutput)
class Agents(Kept):
    """Agents of your projects."""

    kind = AGENTS
    serializer_class = one_class = outputs.AgentOutput
    make_class, change_class = shapes.AgentInput, shapes.AgentChange
    lookup_value_converter = "uuid"
    pagination_class = pagination.ByName
    filterset_class = filters.AgentFilter

    def get_queryset(self) -> Any:
        """With the names of their models."""
        return self.visible(Agent.objects).select_related(*(f"{role}_model" for role in Agent.MODEL_ROLES))

    def given(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Models by name, each in the column of its role."""
        chosen = fields.pop("models", {})
        return fields | {f"{role}_model": _model(f"models.{role}", name) for role, name in chosen.items()}


@described(shapes.ModelChange, shapes.ModelChange, shapes.OneModelOutput)
class Models(Kept):
    """Configured models, for all projects: superusers change them. Keys are never shown; they are not even stored."""

    kind = MODELS
    queryset = ModelConfig.objects.select_related("fallback")
    serializer_class = outputs.ModelOutput
    make_class, change_class, one_class = shapes.ModelChange, shapes.ModelChange, shapes.OneModelOutput
    pagination_class = pagination.ByName
    lookup_field = "name"
    lookup_value_converter = "slug"

    def given(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fallback by its name."""
        return fields | {name: _model(name, fields[name]) for name in ("fallback",) if name in fields}

    @extend_schema(request=None, responses={202: shapes.OneModelOutput})
    @action(detail=True, methods=["post"], pagination_class=None)
    def test(self, request: Request, name: Any = None) -> Response:
        """Have a worker make one call with a tool. Once ``settings.tested_at`` is set, ``test_result`` has what was
        found."""
        row = self.get_object()
        model_tests.order_test(actor=request.user, row=row)
        row.refresh_from_db()
        return Response(self._one(row), status=202)


@described(shapes.AccessRuleInput, shapes.AccessRuleChange, shapes.AccessRuleOutput)
class AccessRules(Kept):
    """Access rules of your projects: who may use which tool. Each change makes a version of the policy."""

    kind = ACCESS_RULES
    serializer_class = one_class = shapes.AccessRuleOutput
    make_class, change_class = shapes.AccessRuleInput, shapes.AccessRuleChange
    lookup_value_converter = "uuid"
    pagination_class = pagination.NewestFirst
    filterset_class = filters.AccessRuleFilter

    def get_queryset(self) -> Any:
        """Only yours."""
        return self.visible(AccessRule.objects)


@described(None, shapes.PolicyChange, shapes.PolicyOutput)
class Policies(Configured):
    """Policies of your projects, one each: it comes with the project. Each change makes a version."""

    kind = POLICIES
    serializer_class = one_class = shapes.PolicyOutput
    change_class = shapes.PolicyChange
    lookup_value_converter = "uuid"
    pagination_class = pagination.NewestFirst
    filterset_class = filters.PolicyFilter

    def get_queryset(self) -> Any:
        """Only yours."""
        return self.visible(Policy.objects)


def _model(field: str, name: str | None) -> ModelConfig | None:
    if name is None:
        return None
    if (row := ModelConfig.objects.filter(name=name).first()) is None:
        raise InvalidTask({field: "There is no model by that name."})
    return row
