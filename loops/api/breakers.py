"""Circuit breakers: what is not called just now, why and until when; and closing one by hand (SPEC E5, T2)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import pagination
from loops.api.endpoint import Endpoint
from loops.api.filters import ScopedFilter
from loops.models import Breaker
from loops.services import breakers as service


class BreakerFilter(ScopedFilter):
    """``?status=open&kind=model&name=claude``."""

    class Meta:
        model = Breaker
        fields = ("status", "kind", "name")


class BreakerOutput(serializers.ModelSerializer):
    """A breaker has a row from its first failure on; what has none is called."""

    failures = serializers.SerializerMethodField(help_text="In a row, while it is closed.")
    waiting_runs = serializers.SerializerMethodField(help_text="Runs you may see that wait for this model.")

    class Meta:
        model = Breaker
        fields: tuple[str, ...] = (
            "id",
            "kind",
            "name",
            "status",
            "why",
            "failures",
            "opened_at",
            "open_until",
            "probes_failed",
            "waiting_runs",
            "changed_at",
        )

    def get_failures(self, breaker: Breaker) -> int:
        """How many count at present."""
        return len(breaker.failed_at)

    def get_waiting_runs(self, breaker: Breaker) -> int:
        """Counted once for all breakers of an answer."""
        return int(self.context["waiting"][breaker.name]) if breaker.kind == "model" else 0


class RuleOutput(serializers.Serializer):
    """When it opens, and for how long."""

    enabled = serializers.BooleanField()
    threshold = serializers.IntegerField(help_text="Failures in a row that open it.")
    window_s = serializers.IntegerField(help_text="Older failures do not count.")
    cooldown_s = serializers.IntegerField(help_text="Until one call may try again.")


class EventOutput(serializers.Serializer):
    """``run``: whose call it was, null for a run you may not see; ``actor``: who reset it."""

    at = serializers.DateTimeField()
    what = serializers.CharField()
    why = serializers.CharField()
    open_until = serializers.DateTimeField(allow_null=True)
    run = serializers.UUIDField(allow_null=True)
    actor = serializers.CharField(source="actor.username", default=None, allow_null=True)


class OneBreakerOutput(BreakerOutput):
    """With the rule in force and its latest history."""

    rule = serializers.SerializerMethodField()
    events = serializers.SerializerMethodField(help_text=f"The latest {service.SHOWN}, newest first.")
    events_total = serializers.SerializerMethodField(help_text="How many there are.")

    class Meta(BreakerOutput.Meta):
        fields = (*BreakerOutput.Meta.fields, "rule", "events", "events_total")

    @extend_schema_field(RuleOutput)
    def get_rule(self, breaker: Breaker) -> Any:
        """Its own, that of its kind, or the default."""
        return RuleOutput(service.rule_in_force(breaker)).data

    @extend_schema_field(EventOutput(many=True))
    def get_events(self, breaker: Breaker) -> Any:
        """What happened to it."""
        return EventOutput(service.history(self.context["request"].user, breaker), many=True).data

    def get_events_total(self, breaker: Breaker) -> int:
        """Those that ``events`` leaves out are on the page of circuit breakers."""
        return service.events_of(breaker).count()


class ResetOutput(serializers.Serializer):
    """``reset`` is false when it was closed already."""

    reset = serializers.BooleanField()
    breaker = OneBreakerOutput()


class Breakers(Endpoint, viewsets.ReadOnlyModelViewSet):
    """Circuit breakers of tools and models, shared by all workers and all projects of this installation."""

    serializer_class = BreakerOutput
    pagination_class = pagination.ByName
    filterset_class = BreakerFilter
    lookup_value_converter = "uuid"

    def get_queryset(self) -> Any:
        """All of them, for whoever has a role anywhere."""
        if getattr(self, "swagger_fake_view", False) or not service.may_see(self.request.user):
            return Breaker.objects.none()
        return Breaker.objects.all()

    def list(self, request: Request, *_: Any, **__: Any) -> Response:
        """By name."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(BreakerOutput(page, many=True, context=self._context(page)).data)

    @extend_schema(responses={200: OneBreakerOutput})
    def retrieve(self, request: Request, *_: Any, **__: Any) -> Response:
        """One, with the rule in force and its latest history."""
        breaker = self.get_object()
        return Response(OneBreakerOutput(breaker, context=self._context([breaker])).data)

    @extend_schema(request=None, responses={200: ResetOutput})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def reset(self, request: Request, pk: Any = None) -> Response:
        """Let every call pass again, and wake the runs that wait. Operators and admins of any project only."""
        breaker = self.get_object()
        done = service.reset_breaker(actor=request.user, kind=breaker.kind, name=breaker.name)
        breaker.refresh_from_db()
        return Response(ResetOutput({"reset": done, "breaker": breaker}, context=self._context([breaker])).data)

    def _context(self, page: Any) -> dict[str, Any]:
        models = [breaker.name for breaker in page if breaker.kind == "model"]
        return {"request": self.request, "waiting": service.waiting_runs(self.request.user, models)}
