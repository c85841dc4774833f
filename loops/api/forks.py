"""Fork a run and compare two (SPEC K3, T2)."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import inputs, outputs
from loops.api.endpoint import Endpoint
from loops.api.views import KEY, number
from loops.models import Run
from loops.services.forks import MAX_INSTRUCTIONS, MAX_MESSAGE, fork_run
from loops.services.lineage import Shared, shared

AFTER = OpenApiParameter("after", int, description="Give steps with a higher number.")
LIMIT = OpenApiParameter("limit", int, description="At most so many steps, up to 200.")


class ForkInput(inputs.Strict):
    """Where to fork, and what is to differ from there on. What is not given stays as it was."""

    step = serializers.IntegerField(required=False, help_text="Take over up to this step; 0: nothing but the task.")
    seq = serializers.IntegerField(required=False, help_text="Instead of a step: up to this fact, or a checkpoint's.")
    message = inputs.RawText(
        required=False, allow_blank=True, default="", help_text=f"For the agent; at most {MAX_MESSAGE:,} characters."
    )
    instructions = inputs.RawText(
        required=False, allow_blank=True, allow_null=True, default=None, help_text=f"At most {MAX_INSTRUCTIONS:,}."
    )
    model = serializers.CharField(required=False, allow_blank=True, default="", help_text="Name under /models/.")
    limits = inputs.LimitsInput(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """One point, said in one way."""
        if {"step", "seq"} <= attrs.keys():
            raise serializers.ValidationError({"seq": "Give a step or a fact, not both."})
        return attrs


class ForkOutput(serializers.Serializer):
    """``created`` is false when an earlier fork is given back."""

    created = serializers.BooleanField()
    run = outputs.RunOutput()


class BesideOutput(serializers.Serializer):
    """Step ``number`` of both; a shared one is given once, and what a run does not have is null."""

    number = serializers.IntegerField()
    shared = serializers.BooleanField()
    one = outputs.StepOutput(allow_null=True)
    other = outputs.StepOutput(allow_null=True)


class ComparisonOutput(serializers.Serializer):
    """The first ``shared_steps`` steps are one history, recorded by ``shared_run`` (null: no history in common)."""

    one = outputs.RunOutput()
    other = outputs.RunOutput()
    shared_steps = serializers.IntegerField()
    shared_run = serializers.UUIDField(allow_null=True)
    steps = BesideOutput(many=True)
    next_after = serializers.IntegerField(allow_null=True, help_text="Null on the last page.")


class ForkRun(Endpoint):
    """A run can be forked from any step of it, ended or not."""

    @extend_schema(
        request=ForkInput,
        parameters=[KEY],
        responses={201: ForkOutput, 200: ForkOutput},
        operation_id="runs_fork",
    )
    def post(self, request: Request, pk: Any) -> Response:
        """Begin a new run with the history of this one. Nothing of it is executed or paid again, and no approval is
        inherited. 200 gives an earlier fork back, 201 makes a new one. Operators and admins of the project only."""
        cleaned = ForkInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        run = get_object_or_404(self.visible(Run.objects).with_names(), pk=pk)
        key = request.headers.get("Idempotency-Key")
        forking = fork_run(actor=request.user, run=run, idempotency_key=key, **cleaned.validated_data)
        return Response(ForkOutput(forking).data, status=201 if forking.created else 200)


class CompareRuns(Endpoint):
    """Two runs, step beside step."""

    @extend_schema(responses={200: ComparisonOutput}, parameters=[AFTER, LIMIT], operation_id="runs_compare")
    def get(self, request: Request, pk: Any, other: Any) -> Response:
        """What two runs have in common, and a page of their steps side by side."""
        if pk == other:
            raise NotFound("Name two different runs.")
        runs = [get_object_or_404(self.visible(Run.objects).with_names(), pk=one) for one in (pk, other)]
        after, limit = number(request, "after", 0, 2**31 - 1), number(request, "limit", 50, 200)
        common = shared(*runs)
        last = max(run.total_steps for run in runs)
        end = min(after + limit, last)
        answer = {
            "one": runs[0],
            "other": runs[1],
            "shared_steps": common.steps,
            "shared_run": common.run,
            "steps": _beside(runs, range(after + 1, end + 1), common),
            "next_after": end if end < last else None,
        }
        return Response(ComparisonOutput(answer).data)


def _beside(runs: list[Run], numbers: range, common: Shared) -> list[dict[str, Any]]:
    sides = [{step.step_number: step for step in run.steps.filter(step_number__in=numbers)} for run in runs]
    recorded = sides[1] if common.run == runs[1].pk else sides[0]
    return [
        {"number": number, "shared": True, "one": recorded.get(number), "other": None}
        if number <= common.steps
        else {"number": number, "shared": False, "one": sides[0].get(number), "other": sides[1].get(number)}
        for number in numbers
    ]
