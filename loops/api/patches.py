"""What a run changed, to carry elsewhere: patch, orders to apply, commit or push it, a pull request's text."""

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
from loops.models import Delivery, Run
from loops.services import delivery
from loops.services.steering import NotPossible
from loops.workspaces import commits, patch, pull_requests


class DeliveryOutput(serializers.ModelSerializer[Delivery]):
    """An order to apply a result (``kind`` folder), to commit it (branch) or to push it (push; ``folder`` is the
    address then): ``state`` is waiting, writing, applied (done) or refused, and then ``why_not`` says why. ``branch``
    and ``commit`` are those of a commit, once known."""

    branch = serializers.CharField(read_only=True)
    commit = serializers.CharField(read_only=True)

    class Meta:
        model = Delivery
        fields = ["id", "kind", "folder", "state", "files", "branch", "commit", "why_not", "ordered_at", "ended_at"]
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
    obeyed = serializers.ListField(
        child=serializers.CharField(), help_text="Changed files that programs obey by themselves, such as git hooks."
    )
    left_out = serializers.ListField(child=serializers.CharField())
    digest = serializers.CharField(allow_null=True)
    why_not = serializers.CharField()
    latest = DeliveryOutput(allow_null=True)


class CommittableOutput(ApplicableOutput):
    """What committing the result would make now: a commit on ``branch`` whose parent is ``parent`` ("" where the
    repository has none yet)."""

    branch = serializers.CharField()
    parent = serializers.CharField()


class PullRequestOutput(serializers.Serializer):
    """``body`` is Markdown, in which nothing of an agent is markup."""

    title = serializers.CharField()
    body = serializers.CharField()


class ApplyInput(inputs.Strict):
    """The ``digest`` of what was shown: what changed since is not done."""

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


class PullRequestText(OfRun):
    """Title and text of a pull request with the run's result, to copy."""

    @extend_schema(responses={200: PullRequestOutput})
    def get(self, request: Request, pk: Any) -> Response:
        """Goal, changes, and each criterion with what its check says. Only of a completed run."""
        try:
            return Response(PullRequestOutput(pull_requests.of(self.run(pk))).data)
        except patch.NoPatch as refusal:
            raise NotFound(str(refusal)) from None


class ApplyRun(OfRun):
    """The result of a run, in the folder that it worked on a copy of."""

    @extend_schema(responses={200: ApplicableOutput}, operation_id="runs_apply_preview")
    def get(self, request: Request, pk: Any) -> Response:
        """What an order would write, and what became of the latest one. Operators and admins of the project only."""
        return Response(ApplicableOutput(_shown(request, self.run(pk), Delivery.Kind.FOLDER)).data)

    @extend_schema(request=ApplyInput, responses={202: DeliveryOutput}, operation_id="runs_apply")
    def post(self, request: Request, pk: Any) -> Response:
        """Have a worker write it: all of it, or nothing where the folder was changed meanwhile."""
        return _ordered(request, self.run(pk), Delivery.Kind.FOLDER)


class CommitRun(OfRun):
    """The result of a run, as a commit on a branch of its own in the repository that it worked on a copy of."""

    @extend_schema(responses={200: CommittableOutput}, operation_id="runs_commit_preview")
    def get(self, request: Request, pk: Any) -> Response:
        """What an order would commit, and what became of the latest one. Operators and admins of the project only."""
        return Response(CommittableOutput(_shown(request, self.run(pk), Delivery.Kind.BRANCH)).data)

    @extend_schema(request=ApplyInput, responses={202: DeliveryOutput}, operation_id="runs_commit")
    def post(self, request: Request, pk: Any) -> Response:
        """Have a worker make it: work tree, index, HEAD and other branches stay as they are."""
        return _ordered(request, self.run(pk), Delivery.Kind.BRANCH)


class PushRun(OfRun):
    """The result of a run, as a commit on a new branch of the server that its repository was fetched from."""

    @extend_schema(responses={200: CommittableOutput}, operation_id="runs_push_preview")
    def get(self, request: Request, pk: Any) -> Response:
        """What an order would push, and what became of the latest one. Operators and admins of the project only."""
        return Response(CommittableOutput(_shown(request, self.run(pk), Delivery.Kind.PUSH)).data)

    @extend_schema(request=ApplyInput, responses={202: DeliveryOutput}, operation_id="runs_push")
    def post(self, request: Request, pk: Any) -> Response:
        """Have a worker push it, where a superuser lets results be pushed: never by force, and no other branch."""
        return _ordered(request, self.run(pk), Delivery.Kind.PUSH)


def _shown(request: Request, run: Run, kind: Delivery.Kind) -> dict[str, Any]:
    orders = delivery.latest(run)
    answer: dict[str, Any] = {"folder": "", "files": [], "conflicts": [], "obeyed": [], "left_out": [], "digest": None}
    answer |= {"why_not": "", "latest": next((row for row in orders if row.kind == kind), None)}
    answer |= {"branch": "", "parent": ""}
    try:
        if why := delivery.under_way(orders):
            raise NotPossible(why)
        now = delivery.preview(request.user, run, kind)
    except NotPossible as refusal:
        return answer | {"why_not": str(refusal)}
    plan, why_not = now.plan, delivery.why_not(now)
    if isinstance(plan, commits.Plan):
        answer |= {"branch": plan.branch, "parent": plan.parent}
    answer |= {"folder": plan.folder, "files": plan.files, "obeyed": plan.obeyed, "left_out": now.left_out}
    answer |= {"conflicts": [{"path": path, "why": why} for path, why in plan.conflicts]}
    return answer | {"why_not": why_not, "digest": None if why_not else plan.digest}


def _ordered(request: Request, run: Run, kind: Delivery.Kind) -> Response:
    cleaned = ApplyInput(data=request.data)
    cleaned.is_valid(raise_exception=True)
    made = delivery.apply_result(actor=request.user, run=run, kind=kind, **cleaned.validated_data)
    return Response(DeliveryOutput(made).data, status=202)
