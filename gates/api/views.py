"""Gates and decisions for programs. Permission is the lookup; rules are those of the services."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, mixins, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from gates import export as exports
from gates import services
from gates.api.serializers import ChangedFileOutput, DecisionInput, DecisionOutput, GateOutput, GateSummary
from gates.models import Decision, Gate
from gates.querysets import DecisionQuerySet, GateQuerySet
from gates.services import disclosure
from loops.api.endpoint import AsItIs, Endpoint
from loops.api.filters import ScopedFilter
from loops.api.pagination import NewestFirst
from loops.api.schema import refused


class Refused(exceptions.APIException):
    """A decision was not taken: somebody was first, the gate changed, or its time is over."""

    status_code = 409


class Unprocessable(exceptions.ValidationError):
    """Well formed, but not a decision this gate can take."""

    status_code = 422


class GateFilter(ScopedFilter):
    """``?status=open&waiting_for_me=true&risk=high``."""

    waiting_for_me = filters.BooleanFilter(method="only_mine", label="Open, and yours to decide")

    class Meta:
        model = Gate
        fields = ("status", "kind", "risk", "project", "run", "tool", "overdue")

    def only_mine(self, queryset: GateQuerySet, name: str, value: bool) -> GateQuerySet:
        """Keep what waits for the person asking."""
        mine = Gate.objects.waiting_for(self.request.user).values("pk")
        return queryset.filter(pk__in=mine) if value else queryset.exclude(pk__in=mine)


class DecisionFilter(ScopedFilter):
    """``?verdict=reject&gate__project=...``."""

    class Meta:
        model = Decision
        fields = ("verdict", "gate", "gate__run", "gate__project", "gate__kind")


class GateViewSet(Endpoint, viewsets.ReadOnlyModelViewSet):
    """Questions to people."""

    lookup_value_converter = "uuid"
    pagination_class = NewestFirst
    filterset_class = GateFilter

    def get_queryset(self) -> GateQuerySet:
        """Gates of one's own projects."""
        around = ("decision", "decision__decided_by", "claimed_by", "run__task")
        return self.visible(Gate.objects).select_related(*around)  # type: ignore[no-any-return]

    def get_serializer_class(self) -> type[GateSummary]:
        """Lists leave out what only a reviewer of one gate needs."""
        return GateSummary if self.action == "list" else GateOutput

    @extend_schema(
        parameters=[OpenApiParameter("path", str, required=True)], responses={200: ChangedFileOutput, **refused()}
    )
    @action(detail=True, methods=["get"], pagination_class=None, filterset_class=None)
    def file(self, request: Request, pk: str = "") -> Response:
        """One changed file of a final review with its whole diff, however long, and the proof of it."""
        found = disclosure.opened(request.user, self.get_object(), request.query_params.get("path", ""))
        if found is None:
            raise exceptions.NotFound
        return Response(ChangedFileOutput(found).data)

    @extend_schema(request=DecisionInput, responses={201: DecisionOutput, **refused(422)})
    @action(detail=True, methods=["post"])
    def decide(self, request: Request, pk: str = "") -> Response:
        """Take one decision. ``digest`` and ``shown`` are those of the whole gate, as ``GET /gates/{id}/`` gives it."""
        asked = DecisionInput(data=request.data)
        asked.is_valid(raise_exception=True)
        try:
            decision = services.decide(actor=request.user, gate_id=pk, **asked.validated_data)
        except services.DecisionRefused as refusal:
            raise _translated(refusal) from refusal
        return Response(DecisionOutput(decision).data, status=201)

    @extend_schema(request=None, responses={200: GateOutput, **refused()})
    @action(detail=True, methods=["post"], url_path="take-back")
    def take_back(self, request: Request, pk: str = "") -> Response:
        """Take back the approval of a call that has not begun. It is asked again, with another gate."""
        try:
            services.take_back(actor=request.user, gate_id=pk)
        except services.DecisionRefused as refusal:
            raise _translated(refusal) from refusal
        return Response(GateOutput(self.get_object(), context=self.get_serializer_context()).data)


class DecisionViewSet(Endpoint, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """What was decided, by whom and why. Decisions never change."""

    lookup_value_converter = "uuid"
    serializer_class = DecisionOutput
    pagination_class = NewestFirst
    filterset_class = DecisionFilter

    def get_queryset(self) -> DecisionQuerySet:
        """Decisions of one's own projects."""
        return self.visible(Decision.objects).with_names()  # type: ignore[no-any-return]


class Export(Endpoint):
    """All decisions of one's projects as a file."""

    content_negotiation_class = AsItIs

    @extend_schema(responses={(200, "application/x-ndjson"): OpenApiTypes.STR, (200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, form: str) -> StreamingHttpResponse:
        """JSON lines for programs, CSV for spreadsheets."""
        return exports.response(self.visible(Decision.objects), form)


def _translated(refusal: services.DecisionRefused) -> exceptions.APIException:
    if isinstance(refusal, services.GateNotFound):
        return exceptions.NotFound()
    if isinstance(refusal, services.NotAllowed):
        return exceptions.PermissionDenied(refusal.message, code=refusal.code)
    if isinstance(refusal, services.InvalidDecision):
        return Unprocessable(_errors(refusal.errors))
    if isinstance(refusal, services.NotShown):
        text = "GET the whole gate from /api/v1/gates/{id}/, and send the `shown` that comes with it."
        return Unprocessable({"shown": [text]})
    return Refused(refusal.message, code=refusal.code)


def _errors(errors: dict[str, list[str]]) -> dict[str, Any]:
    return {name or "non_field_errors": messages for name, messages in errors.items()}
