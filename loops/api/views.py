"""The API's doors: parse, one service call, answer. What a person may see is decided by ``visible_to`` alone."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api import filters, inputs, outputs, pagination
from loops.api.endpoint import Endpoint
from loops.api.schema import refused
from loops.engine.encoding import canonical
from loops.models import Agent, Project, ProvenanceRecord, Run, Task, Workspace
from loops.services.rollback import preview, roll_back_run
from loops.services.steering import STEERING, send_message
from loops.services.submission import InvalidTask
from loops.services.tasks import submit_task
from loops.storage import reader

KEY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER, description="The same key never makes two runs."
)
AFTER = OpenApiParameter("after", int, description="Give facts with a higher sequence number.")
LIMIT = OpenApiParameter("limit", int, description="At most so many, up to 1,000.")


class Projects(Endpoint, viewsets.ReadOnlyModelViewSet):
    """Projects in which you have a role."""

    serializer_class = outputs.ProjectOutput
    lookup_value_converter = "uuid"
    pagination_class = pagination.ByName

    def get_queryset(self) -> Any:
        """Only yours."""
        return self.visible(Project.objects)


class Tasks(Endpoint, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Tasks: goals with acceptance criteria and limits."""

    serializer_class = outputs.TaskOutput
    lookup_value_converter = "uuid"
    pagination_class = pagination.NewestFirst
    filterset_class = filters.TaskFilter

    def get_queryset(self) -> Any:
        """With their runs and their author."""
        runs = Prefetch("runs", Run.objects.only("id", "task_id"))
        return self.visible(Task.objects).select_related("created_by").prefetch_related(runs)

    @extend_schema(
        request=inputs.TaskInput,
        parameters=[KEY],
        responses={201: outputs.SubmissionOutput, 200: outputs.SubmissionOutput},
    )
    def create(self, request: Request) -> Response:
        """Submit a task: it is queued at once. 200 gives an earlier submission back, 201 makes a new one."""
        cleaned = inputs.TaskInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        fields = dict(cleaned.validated_data)
        project = self.named(Project, fields.pop("project"), "slug")
        agent = self.named(Agent, fields.pop("agent"), "name", project=project)
        folder = fields.pop("workspace")
        submission = submit_task(
            actor=request.user,
            project=project,
            agent=agent,
            workspace=self.named(Workspace, folder, "name", project=project) if folder else None,
            idempotency_key=request.headers.get("Idempotency-Key"),
            **fields,
        )
        output = outputs.SubmissionOutput(submission, context=self.get_serializer_context())
        return Response(output.data, status=201 if submission.created else 200)


class Runs(Endpoint, viewsets.ReadOnlyModelViewSet):
    """Runs and their traces."""

    serializer_class = outputs.RunOutput
    pagination_class = pagination.NewestFirst
    filterset_class = filters.RunFilter
    lookup_value_converter = "uuid"

    def get_queryset(self) -> Any:
        """With the names a person wants to read."""
        return self.visible(Run.objects).with_names().select_related("fork__created_by")

    @extend_schema(responses=outputs.StepOutput(many=True), filters=False)
    @action(detail=True, pagination_class=pagination.BySteps, filterset_class=None)
    def steps(self, request: Request, pk: Any = None) -> Response:
        """Steps, first to last, with their reasoning."""
        return self._page(self.get_object().steps.all(), outputs.StepOutput)

    @extend_schema(responses=outputs.ToolCallOutput(many=True), filters=False)
    @action(detail=True, url_path="tool-calls", pagination_class=pagination.ByCalls, filterset_class=None)
    def tool_calls(self, request: Request, pk: Any = None) -> Response:
        """Tool calls with the matrix's verdict, state and outcome."""
        return self._page(self.get_object().tool_calls.all(), outputs.ToolCallOutput)

    @extend_schema(responses=outputs.DetectionOutput(many=True), filters=False)
    @action(detail=True, pagination_class=pagination.NewestFirst, filterset_class=None)
    def detections(self, request: Request, pk: Any = None) -> Response:
        """What the monitor noticed about it: loops, stalls, a worker that hangs, spending too fast."""
        return self._page(self.get_object().detections.all(), outputs.DetectionOutput)

    @extend_schema(responses={200: outputs.FactsOutput}, parameters=[AFTER, LIMIT], filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None)
    def facts(self, request: Request, pk: Any = None) -> Response:
        """The journal from a sequence number on: poll it to follow a run without gap or double."""
        run = self.get_object()
        after = number(request, "after", 0, 2**62)
        limit = number(request, "limit", 200, 1000)
        ended = run.is_ended  # asked before the facts are read: what ended a run is among them
        facts = reader.raw(run.pk, after, limit)
        answer = {"results": facts, "next_after": facts[-1]["seq"] if facts else after, "ended": ended}
        return Response(outputs.FactsOutput(answer).data)

    @extend_schema(responses={200: outputs.ProvenanceOutput}, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None)
    def provenance(self, request: Request, pk: Any = None) -> Response:
        """Who and what made the result of a completed run, and with which evidence."""
        record = get_object_or_404(ProvenanceRecord, run=self.get_object())
        answer = {
            "number": record.number,
            "hash": bytes(record.hash).hex(),
            "prev": bytes(record.prev).hex(),
            "created_at": record.created_at,
            "body": canonical.clean_json(canonical.decode(record.body)),
        }
        return Response(outputs.ProvenanceOutput(answer).data)

    @extend_schema(responses={200: outputs.ResultOutput}, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None)
    def result(self, request: Request, pk: Any = None) -> Response:
        """What the run left at its end. 404 while it is under way."""
        run = self.get_object()
        report = reader.report(run.pk) if run.is_ended else None
        if report is None:
            raise NotFound(f"This run has left no result so far: it is {run.get_status_display().lower()}.")
        answer = {"run": run.pk, "status": run.status, "end_reason": run.end_reason, "report": report}
        return Response(outputs.ResultOutput(answer).data)

    @extend_schema(request=inputs.SteerInput, responses={202: outputs.AcceptedOutput}, filters=False)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def steer(self, request: Request, pk: Any = None) -> Response:
        """Stop, pause or resume; try again what failed by a fault of AgentOps or its model (retry); have the confidence
        judged before the next step (check_confidence). Operators and admins of the project only.

        What waits for a person (a limit to extend, a long task to confirm) is a gate: decide it under /gates/.
        """
        cleaned = inputs.SteerInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        item = STEERING[cleaned.validated_data["action"]](actor=request.user, run=self.get_object())
        return Response(outputs.AcceptedOutput(item).data, status=202)

    @extend_schema(responses={200: outputs.RollbackOutput, **refused(409)}, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None)
    def rollback(self, request: Request, pk: Any = None) -> Response:
        """What undoing an ended run would do, with the digest that an order carries back."""
        return Response(outputs.RollbackOutput(preview(self.get_object())).data)

    @extend_schema(request=inputs.RollbackInput, responses={202: outputs.AcceptedOutput}, filters=False)
    @rollback.mapping.post
    def order_rollback(self, request: Request, pk: Any = None) -> Response:
        """Undo it, the latest effect first. Operators and admins of the project only."""
        cleaned = inputs.RollbackInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        digest = cleaned.validated_data["digest"]
        item = roll_back_run(actor=request.user, run=self.get_object(), digest=digest)
        return Response(outputs.AcceptedOutput(item).data, status=202)

    @extend_schema(request=inputs.MessageInput, responses={202: outputs.AcceptedOutput}, filters=False)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def messages(self, request: Request, pk: Any = None) -> Response:
        """Tell the run something; it takes it up at its next step."""
        cleaned = inputs.MessageInput(data=request.data)
        cleaned.is_valid(raise_exception=True)
        item = send_message(actor=request.user, run=self.get_object(), text=cleaned.validated_data["text"])
        return Response(outputs.AcceptedOutput(item).data, status=202)

    def _page(self, rows: QuerySet, serializer: Any) -> Response:
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(serializer(page, many=True).data)


class Me(Endpoint):
    """Who you are to this installation."""

    @extend_schema(responses=outputs.MeOutput)
    def get(self, request: Request) -> Response:
        """Your name and your role in each project."""
        user: Any = request.user
        roles = user.memberships.select_related("project").order_by("project__name", "role")
        answer = {"username": user.get_username(), "is_superuser": user.is_superuser, "memberships": roles}
        return Response(outputs.MeOutput(answer).data)


def number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidTask({name: "must be a whole number"})
    return min(int(text), most)
