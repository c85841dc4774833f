"""What a model was told, and how far that brought the run: exactly what the pages show (SPEC R4, U1, G1, G2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from loops.api.endpoint import AsItIs, Endpoint
from loops.api.views import number
from loops.engine.confidence.bands import CALIBRATED, band
from loops.engine.encoding import canonical
from loops.models import Artifact, Fact, Run
from loops.services import conversations as service
from loops.services.progress import course_of
from loops.storage import conversations, reader

REQUEST = OpenApiParameter("request", int, description="As this request sent it; without it: as it stands now.")
AFTER = OpenApiParameter("after", int, description="Give messages with a higher number.")
LIMIT = OpenApiParameter("limit", int, description="At most so many messages, up to 200.")
GONE = "The texts of this run were pruned; its facts, result and provenance are kept."


class MessageOutput(serializers.Serializer):
    """``content`` is a list of blocks: text, thinking, tool_use, tool_result, and summary of what was left out."""

    number = serializers.IntegerField()
    role = serializers.CharField()
    content = serializers.ListField(child=serializers.DictField())


class PruningOutput(serializers.Serializer):
    """What was left out to fit the context window; ``seq`` is the fact, and the key to the messages themselves."""

    seq = serializers.IntegerField()
    step = serializers.IntegerField()
    dropped = serializers.IntegerField()
    shortened = serializers.IntegerField()
    method = serializers.CharField()
    model = serializers.CharField()


class CountedOutput(serializers.Serializer):
    """What the provider counted."""

    input_tokens = serializers.IntegerField()
    cache_read_tokens = serializers.IntegerField()
    cache_write_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()


class ConversationOutput(serializers.Serializer):
    """Ask again with ``after=next_after`` until it is null. ``matches``: is the request, made again from the facts, the
    very one that was sent? Null where that cannot be told."""

    requests = serializers.IntegerField(help_text="How often the acting model was asked so far.")
    request = serializers.IntegerField(allow_null=True)
    model = serializers.CharField()
    request_sha256 = serializers.CharField()
    matches = serializers.BooleanField(allow_null=True)
    tokens = serializers.DictField(child=serializers.IntegerField(), help_text="Estimated, by part of the request.")
    counted = CountedOutput(allow_null=True)
    system = serializers.CharField()
    tools = serializers.ListField(child=serializers.DictField())
    prunings = PruningOutput(many=True)
    messages = MessageOutput(many=True)
    next_after = serializers.IntegerField(allow_null=True)


class LeftOutOutput(serializers.Serializer):
    """The messages that one pruning took out."""

    messages = MessageOutput(many=True)
    next_after = serializers.IntegerField(allow_null=True)


class ProgressPoint(serializers.Serializer):
    """After a step: 0 to 1, and how that was measured (tests, artifacts, model)."""

    step = serializers.IntegerField()
    progress = serializers.FloatField()
    method = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)


class JudgementOutput(serializers.Serializer):
    """``score`` is the smaller of ``raw_score``, the model's own, and ``ceiling``, which follows from ``features`` and
    ``weights``. Below ``threshold`` a person is asked. While ``calibrated`` is false the score is no probability: show
    people the ``band``, low, medium or high."""

    step = serializers.IntegerField()
    trigger = serializers.CharField()
    band = serializers.CharField()
    calibrated = serializers.BooleanField()
    score = serializers.FloatField(
        help_text="Uncalibrated, from 0 to 1: for machines, and comparable within a run only."
    )
    raw_score = serializers.FloatField(allow_null=True)
    ceiling = serializers.FloatField()
    threshold = serializers.FloatField()
    method = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    features = serializers.DictField(child=serializers.FloatField())
    weights = serializers.DictField(child=serializers.FloatField())


class CurveOutput(serializers.Serializer):
    """At most 200 points of each kind, of a longer run even samples of the steps and the latest judgements."""

    total_steps = serializers.IntegerField()
    progress = serializers.FloatField()
    steps = ProgressPoint(many=True)
    confidence = JudgementOutput(many=True)
    every = serializers.IntegerField(help_text="One step in so many is listed.")
    confidence_has_older = serializers.BooleanField(help_text="There are judgements before these.")


class OfRun(Endpoint):
    """A view of one run that its members may see."""

    def run(self, pk: Any) -> Run:
        run: Run = get_object_or_404(self.visible(Run.objects), pk=pk)
        return run


class Conversation(OfRun):
    """The conversation with the acting model."""

    @extend_schema(parameters=[REQUEST, AFTER, LIMIT], responses={200: ConversationOutput})
    def get(self, request: Request, pk: Any) -> Response:
        """Message by message, as it stands or as one request sent it."""
        run = self.run(pk)
        asked = conversations.requests(run.pk)
        chosen = number(request, "request", 0, 2**31)
        until = _request(asked, chosen)[0] if chosen else None
        told = _told(run, until)
        system, *messages = service.said(told, whole=until is None) or [{"content": [{"text": ""}]}]
        latest = told.asked
        answer = {
            "requests": len(asked),
            "request": chosen or None,
            "model": latest.model if latest else "",
            "request_sha256": latest.request_sha256 if latest else "",
            "matches": told.matches,
            "tokens": latest.tokens if latest else {},
            "counted": service.counted(run, until) if until else None,
            "system": system["content"][0]["text"],
            "tools": [canonical.clean_json(tool) for tool in told.tools],
            "prunings": told.prunings,
            **_page(request, messages),
        }
        return Response(ConversationOutput(answer).data)


class LeftOut(OfRun):
    """What a pruning took out."""

    @extend_schema(
        operation_id="v1_runs_conversation_left_out",
        parameters=[AFTER, LIMIT],
        responses={200: LeftOutOutput},
    )
    def get(self, request: Request, pk: Any, seq: int) -> Response:
        """The messages as they were just before."""
        run = self.run(pk)
        if seq >= 2**31 or not Fact.objects.filter(run=run, seq=seq, kind="ContextPruned").exists():
            raise NotFound
        try:
            gone = conversations.left_out(run.pk, seq)
        except reader.MissingBlob:
            raise NotFound(GONE) from None
        numbered = [{"number": at, **message} for at, message in enumerate(gone, 1)]
        return Response(LeftOutOutput(_page(request, numbered)).data)


class AsSent(OfRun):
    """One request in the form of its provider."""

    @extend_schema(responses={200: OpenApiTypes.OBJECT})
    def get(self, request: Request, pk: Any, sent: int) -> Response:
        """Made again from the facts; by today's configuration of the model."""
        run = self.run(pk)
        return Response(service.as_sent(_told(run, _request(conversations.requests(run.pk), sent)[0])))


class Curve(OfRun):
    """How progress and confidence went."""

    @extend_schema(responses={200: CurveOutput})
    def get(self, request: Request, pk: Any) -> Response:
        """Step by step, with what each was measured by."""
        run = self.run(pk)
        course = course_of(run)
        steps = [
            {"step": at, "progress": share, "method": how.get("method") or "", "detail": how.get("detail") or ""}
            for at, share, how in course.steps
        ]
        judged = [{"raw_score": None, "features": {}, "weights": {}, **_in_words(body)} for body in course.judgements]
        clean = canonical.clean_json(judged)
        answer = {"total_steps": run.total_steps, "progress": run.progress, "steps": steps, "confidence": clean}
        answer |= {"every": course.every, "confidence_has_older": course.older}
        return Response(CurveOutput(answer).data)


def _in_words(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "band": band(body["score"], body["threshold"]), "calibrated": CALIBRATED}


class WholeOutput(OfRun):
    """The whole of what a call cut short."""

    content_negotiation_class = AsItIs

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, pk: Any, sha256: str) -> HttpResponse:
        """Its bytes, as ``output_sha256`` of a tool call names them."""
        artifact = get_object_or_404(Artifact.objects.filter(run=self.run(pk), sha256=sha256)[:1])
        try:
            return HttpResponse(b"".join(reader.blob(artifact.sha256)), headers=_DOWNLOAD)
        except reader.MissingBlob:
            raise NotFound(GONE) from None


_DOWNLOAD = {
    "Content-Type": "application/octet-stream",
    "Content-Disposition": 'attachment; filename="output"',
    "X-Content-Type-Options": "nosniff",
}


def _request(asked: Sequence[tuple[int, int]], chosen: int) -> tuple[int, int]:
    if not 0 < chosen <= len(asked):
        raise NotFound(f"There is no request {chosen}: the acting model was asked {len(asked)} times.")
    return asked[chosen - 1]


def _told(run: Run, until: int | None) -> conversations.ReplayedRequest:
    try:
        return conversations.told(run.pk, until)
    except reader.MissingBlob:
        raise NotFound(GONE) from None


def _page(request: Request, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Messages after ``after``, and where to go on."""
    after, limit = number(request, "after", 0, 2**31), max(1, number(request, "limit", 50, 200))
    shown = messages[after : after + limit]
    return {"messages": shown, "next_after": after + limit if after + limit < len(messages) else None}
