"""What the API gives."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from loops.engine.ends.reasons import explained
from loops.models import Agent, Detection, ModelConfig, Project, Run, Step, Task, ToolCallRecord
from loops.services import models
from loops.services.keys import Book
from loops.storage.status import weakness
from loops.web import formatting


class ProjectOutput(serializers.ModelSerializer):
    class Meta:
        model = Project
        fields = ["id", "name", "slug", "is_demo", "created_at"]


class AgentOutput(serializers.ModelSerializer):
    models = serializers.SerializerMethodField(help_text="Name of the model for each role.")

    class Meta:
        model = Agent
        fields = ["id", "project", "name", "agent_type", "execution_loop", "instructions", "models", "is_active"]

    def get_models(self, agent: Agent) -> dict[str, str]:
        """Names only: what a model is stands under /models/."""
        chosen = {role: getattr(agent, f"{role}_model") for role in Agent.MODEL_ROLES}
        return {role: model.name for role, model in chosen.items() if model is not None}


class ModelOutput(serializers.ModelSerializer):
    usable = serializers.SerializerMethodField(help_text="Is its key present on this installation?")
    context_window = serializers.SerializerMethodField(help_text="Tokens it takes, question and answer together.")
    fallback = serializers.CharField(
        source="fallback.name", default=None, allow_null=True, help_text="Asked while it is out of reach."
    )

    class Meta:
        model = ModelConfig
        fields = [
            "name",
            "provider",
            "model_id",
            "max_tokens",
            "context_window",
            "fallback",
            "thinking",
            "xml_tools",
            "input_usd_per_mtok",
            "output_usd_per_mtok",
            "cache_read_usd_per_mtok",
            "cache_write_usd_per_mtok",
            "usable",
        ]

    def get_usable(self, model: ModelConfig) -> bool:
        """Never the key itself."""
        book = self.context.setdefault("book", Book())
        return models.is_usable(model, book)

    def get_context_window(self, model: ModelConfig) -> int:
        """As an admin said, or as is known of it."""
        return models.window_of(model)


class CriterionOutput(serializers.Serializer):
    text = serializers.CharField()
    command = serializers.CharField()


class TaskOutput(serializers.ModelSerializer):
    criteria = CriterionOutput(many=True)
    limits = serializers.DictField(child=serializers.IntegerField())
    output_schema = serializers.DictField(allow_null=True)
    created_by = serializers.CharField(source="created_by.username")
    runs: Any = serializers.PrimaryKeyRelatedField(many=True, read_only=True)

    class Meta:
        model = Task
        fields = [
            "id",
            "project",
            "agent",
            "workspace",
            "title",
            "goal",
            "criteria",
            "constraints_text",
            "output_schema",
            "complexity",
            "limits",
            "execution_loop",
            "final_review",
            "idempotency_key",
            "content_sha256",
            "created_by",
            "created_at",
            "runs",
        ]


@extend_schema_field({"type": "string", "oneOf": [{"const": v, "title": str(t)} for v, t in Run.Status.choices]})
class StatusField(serializers.CharField):
    """The state of a run, with what each means to a person."""


class OriginOutput(serializers.Serializer):
    """The point a run was forked at; ``head`` is the hash of that fact."""

    run = serializers.UUIDField(source="parent_id")
    step = serializers.IntegerField()
    seq = serializers.IntegerField()
    head = serializers.SerializerMethodField()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()

    def get_head(self, fork: Any) -> str:
        """In hex, as under /facts/."""
        return bytes(fork.head).hex()


class RunOutput(serializers.ModelSerializer):
    status = StatusField()
    forked_from = OriginOutput(source="fork", allow_null=True, read_only=True)
    task_title = serializers.CharField(source="task.title")
    agent_name = serializers.CharField(source="agent.name")
    status_text = serializers.SerializerMethodField(help_text="The status in words: for what it waits, for example.")
    end_reason_text = serializers.SerializerMethodField(
        help_text="The reason code in words; empty while the run continues."
    )

    class Meta:
        model = Run
        fields = [
            "id",
            "project",
            "task",
            "task_title",
            "agent",
            "agent_name",
            "status",
            "status_text",
            "phase",
            "waiting_kind",
            "waiting_name",
            "waiting_on",
            "end_reason",
            "end_reason_text",
            "final_status",
            "escalation_reason",
            "paused_by",
            "paused_reason",
            "paused_at",
            "started_at",
            "completed_at",
            "last_activity_at",
            "total_steps",
            "max_steps",
            "progress",
            "total_tokens",
            "total_cost_usd",
            "cost_unknown",
            "scripted",
            "policy_version",
            "head_seq",
            "forked_from",
        ]

    def get_status_text(self, run: Run) -> str:
        """As pages say it."""
        return formatting.state(run)

    def get_end_reason_text(self, run: Run) -> str:
        """An unknown code stands for itself."""
        return explained(run.end_reason, weakness(run.final_status))


class SubmissionOutput(serializers.Serializer):
    """``created`` is false when an earlier submission is given back. ``note``: what keeps the workspace's own
    `agentops.toml` from being used; else empty."""

    created = serializers.BooleanField()
    note = serializers.CharField()
    task = TaskOutput()
    run = RunOutput()


class StepOutput(serializers.ModelSerializer):
    action = serializers.JSONField()
    result = serializers.JSONField()
    validation = serializers.JSONField()

    class Meta:
        model = Step
        fields = [
            "step_number",
            "timestamp",
            "phase",
            "reasoning",
            "said",
            "action",
            "result",
            "validation",
            "success",
            "error",
            "progress",
            "tokens_used",
            "cost_usd",
            "duration_ms",
            "first_seq",
            "last_seq",
        ]


class ToolCallOutput(serializers.ModelSerializer):
    arguments = serializers.JSONField()
    reasons = serializers.ListField(child=serializers.CharField())
    data: Any = serializers.JSONField()

    class Meta:
        model = ToolCallRecord
        fields = [
            "call_id",
            "step_number",
            "position",
            "tool",
            "arguments",
            "state",
            "access",
            "reasons",
            "attempt",
            "gate_id",
            "ok",
            "output",
            "output_sha256",
            "error",
            "exit_code",
            "data",
            "started_at",
            "duration_ms",
            "sandbox_level",
        ]


class DetectionOutput(serializers.ModelSerializer):
    steps = serializers.ListField(child=serializers.IntegerField())

    class Meta:
        model = Detection
        fields = ["id", "at", "kind", "method", "evidence", "steps", "confidence", "seq"]


class FactOutput(serializers.Serializer):
    """A row of the journal; ``hash`` is SHA-256 over the hash of the row before and the stored canonical bytes."""

    seq = serializers.IntegerField()
    kind = serializers.CharField()
    step = serializers.IntegerField()
    at = serializers.DateTimeField()
    epoch = serializers.IntegerField(help_text="Which owner of the run wrote it.")
    hash = serializers.CharField()
    fact = serializers.DictField()


class FactsOutput(serializers.Serializer):
    """Facts after a sequence number. Ask again with ``after=next_after`` until ``results`` is empty and ``ended``."""

    results = FactOutput(many=True)
    next_after = serializers.IntegerField()
    ended = serializers.BooleanField()


class ProvenanceOutput(serializers.Serializer):
    number = serializers.IntegerField()
    hash = serializers.CharField()
    prev = serializers.CharField()
    created_at = serializers.DateTimeField()
    body = serializers.DictField()


class ResultOutput(serializers.Serializer):
    """What a run left at its end: AgentResult, FailureReport or HaltRecord (``report.kind``). Of an AgentResult,
    ``report.evidence`` is the weakest level behind it, and ``report.levels`` how many criteria have each: `proved`,
    `accepted` (by ``report.approver``), `supported`, `claimed` or `contradicted`. Each of ``report.checks`` has its
    own, as measured, in ``evidence``, and in ``why`` the reason why it is not proved. Earlier versions recorded none.
    """

    run = serializers.UUIDField()
    status = serializers.CharField()
    end_reason = serializers.CharField()
    report = serializers.DictField()


class AcceptedOutput(serializers.Serializer):
    """The order lies in the run's mailbox; its owner acts on it within a second."""

    id = serializers.UUIDField()
    run = serializers.UUIDField(source="run_id")
    kind = serializers.CharField()
    created_at = serializers.DateTimeField()


class RollbackOutput(serializers.Serializer):
    """What a rollback would do now: files with ``what`` (remove, make again, change back) and ``why_not``, a diff from
    now to then, and effects that are no files."""

    digest = serializers.CharField()
    view = serializers.DictField()


class RoleOutput(serializers.Serializer):
    project = serializers.CharField(source="project_id")
    slug = serializers.CharField(source="project.slug")
    role = serializers.CharField()


class MeOutput(serializers.Serializer):
    username = serializers.CharField()
    is_superuser = serializers.BooleanField()
    roles = RoleOutput(source="memberships", many=True)


class ProblemOutput(serializers.Serializer):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    code = serializers.CharField()
    errors: Any = serializers.DictField(child=serializers.CharField(), required=False)
