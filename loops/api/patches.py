"""What a run changed, to carry elsewhere: patch and order to apply it, the same as on pages and in terminals."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import inputs
from loops.api.conversations import OfRun
from loops.api.endpoint import AsItIs
from loops.models import Delivery
from loops.services import delivery
from loops.services.steering import NotPossible
from loops.workspaces import patch


class DeliveryOutput(serializers.ModelSerializer[Delivery]):
    """An order to apply a result: ``state`` is waiting, writing, applied or refused, and then ``why_not`` says why."""

    class Meta:
        model = Delivery
        fields = ["id", "folder", "state", "files", "why_not", "ordered_at", "ended_at"]
        read_only_fields = fields


class PlannedFileOutput(serializers.Serializer):
    """``what`` is created, changed, deleted, moved (from ``source``) or permissions."""

    path = serializers.CharField()
    what = serializers.CharField()
    source = serializers.CharField()


class ConflictOutput(serializers.Serializer):
    """A path that cannot be written."""

    path = serializers.CharField()
    why = serializers.CharField()


class ApplicableOutput(serializers.Serializer):
    """What applying the result would write now. ``digest`` is null where that is not possible, and ``why_not`` says
    why. ``left_out`` is what no order would carry over."""

    folder = serializers.CharField()
    files = PlannedFileOutput(many=True)
    conflicts = ConflictOutput(many=True)
    obeyed = serializers.ListField(child=serializers.CharField(), help_text="What programs obey on sight.")
    left_out = serializers.ListField(child=serializers.CharField())
    digest = serializers.CharField(allow_null=True)
    why_not = serializers.CharField()
    latest = DeliveryOutput(allow_null=True)


class ApplyInput(inputs.Strict):
    """The ``digest`` of what was shown: what changed since is not applied."""

    digest = serializers.CharField()


class RunPatch(OfRun):
    """The files that the run changed, as an e-mail for ``git am``, which ``git apply`` reads too."""

    content_negotiation_class = AsItIs

    @extend_schema(responses={(200, "text/x-patch"): OpenApiTypes.BINARY})
    def get(self, request: Request, pk: Any) -> HttpResponse:
        """Against the folder as the run found it. What is not in it is named above the first change."""
        run = self.run(pk)
        try:
            return HttpResponse(patch.of(run).message, headers=patch.download(run))
        except patch.NoPatch as refusal:
            raise NotFound(str(refusal)) from None


class ApplyRun(OfRun):
    """The result of a run, in the folder that it worked on a copy of."""

    @extend_schema(responses={200: ApplicableOutput}, operation_id="runs_apply_preview")
    def get(self, request: Request, pk: Any) -> Response:
        """What an order would write, and what became of the latest one. Operators and admins of the project only."""
        run = self.run(pk)
        answer: dict[str, Any] = {"folder": "", "files": [], "conflicts": [], "obeyed": []}
        answer |= {"left_out": [], "digest": None}
        answer |= {"why_not": "", "latest": delivery.latest(run)}
        try:
            if answer["latest"] is not None and answer["latest"].is_open:
                raise NotPossible(delivery.UNDER_WAY)
            now = delivery.preview(request.user, run)
        except NotPossible as refusal:
            answer["why_not"] = str(refusal)
        else:
            conflicts = [{"path": path, "why": why} for path, why in now.plan.conflicts]
            answer |= {"folder": now.plan.folder, "files": now.plan.files, "obeyed": now.plan.obeyed}
            answer |= {"conflicts": conflicts, "left_out": now.left_out}
            answer["why_not"] = delivery.why_not(now)
            answer["digest"] = None if answer["why_not"] else now.plan.digest
        return Response(ApplicableOutput(answer).data)

    @extend_schema(request=ApplyInput, responses={202: DeliveryOutput}, operation_id="runs_apply")
    def post(self, request: Request, pk: Any) -> Response:
        """Have a worker write it: all of it, or nothing where the folder was changed meanwhile."""
        cleaned = ApplyInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        ordered = delivery.apply_result(actor=request.user, run=self.run(pk), **cleaned.validated_data)
        return Response(DeliveryOutput(ordered).data, status=202)
