"""What is set up, as the API takes and gives it. The rules are those of the services, for every door."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from loops.api.inputs import LimitsInput, RawText, Strict
from loops.api.outputs import ModelOutput
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.models import AccessRule, Agent, ModelConfig, Policy, Workspace
from loops.services.configuration import LONGEST_REASON, SAY_WHY
from loops.services.submission import FINAL_REVIEWS
from loops.workspaces import copies

PROJECT = "Id or slug."
REVIEWS = [choice for choice in FINAL_REVIEWS if choice]
REPOSITORY = ("git_url", "git_ref", "git_token_env", "git_push_token_env")
ALLOW = "A superuser answers for it, and is recorded."


def _reason(*, required: bool = False) -> serializers.CharField:
    return serializers.CharField(
        required=required, allow_blank=not required, max_length=LONGEST_REASON, help_text=SAY_WHY
    )


class WorkspaceChange(Strict, serializers.ModelSerializer):
    """A folder that agents may work in, a commit of its repository, or a repository on a server."""

    path = RawText(required=False, allow_blank=True, help_text="Absolute; empty: a fresh empty folder for every task.")
    git_url = RawText(
        required=False,
        allow_blank=True,
        max_length=400,
        help_text="Instead of a path: https, without credentials. Superusers only.",
    )
    git_ref = RawText(
        required=False,
        allow_blank=True,
        max_length=250,
        help_text="A branch, a tag or a commit; with a path: of the repository in that folder.",
    )
    git_token_env = RawText(
        required=False, allow_blank=True, max_length=100, help_text="Name of a variable of the worker. Superusers only."
    )
    git_push_token_env = RawText(
        required=False,
        allow_blank=True,
        max_length=100,
        help_text="The same of a token that may write, with which people push results. Superusers only.",
    )
    allow = serializers.BooleanField(required=False, help_text=f"Outside the workspace roots: {ALLOW}")

    class Meta:
        model = Workspace
        validators: list[Any] = []
        fields: tuple[str, ...] = ("name", "path", *REPOSITORY, "copy_for_each_run", *COMMAND_LIMITS, "allow")


class WorkspaceInput(WorkspaceChange):
    """A new one."""

    project = serializers.CharField(help_text=PROJECT)

    class Meta(WorkspaceChange.Meta):
        fields = ("project", *WorkspaceChange.Meta.fields)


class WorkspaceOutput(serializers.ModelSerializer):
    """``allowed_by`` answers for a folder outside of the roots."""

    allowed_by = serializers.CharField(source="allowed_by.username", default=None, allow_null=True)

    class Meta:
        model = Workspace
        fields: tuple[str, ...] = (
            *("id", "project", "name", "path", *REPOSITORY, "copy_for_each_run", *COMMAND_LIMITS),
            *("allowed_by", "allowed_at"),
        )


class OneWorkspaceOutput(WorkspaceOutput):
    """With whether a task may name it now."""

    refused = serializers.SerializerMethodField(help_text="Why no task may name it; empty when one may.")

    class Meta(WorkspaceOutput.Meta):
        fields = (*WorkspaceOutput.Meta.fields, "refused")

    def get_refused(self, workspace: Workspace) -> str:
        """As of now, on this machine."""
        return copies.why_refused(workspace)


class ModelsByRole(Strict):
    """Names of models by role; null takes one away."""

    def get_fields(self) -> dict[str, serializers.Field]:
        """One for each role."""
        name = {"required": False, "allow_null": True, "max_length": 100}
        return {role: serializers.CharField(**name) for role in Agent.MODEL_ROLES}  # type: ignore[arg-type]


class AgentChange(Strict, serializers.ModelSerializer):
    """Who works, with which models and instructions."""

    execution_loop = serializers.CharField(required=False, max_length=40)
    instructions = RawText(required=False, allow_blank=True, help_text="Added to the system prompt.")
    models = ModelsByRole(required=False)
    reason = _reason()

    class Meta:
        model = Agent
        validators: list[Any] = []
        fields: tuple[str, ...] = (
            *("name", "agent_type", "execution_loop", "program", "instructions", "models", "is_active", "reason"),
        )


class AgentInput(AgentChange):
    """A new one."""

    project = serializers.CharField(help_text=PROJECT)

    class Meta(AgentChange.Meta):
        fields = ("project", *AgentChange.Meta.fields)


class AccessRuleChange(Strict, serializers.ModelSerializer):
    """Which type of agent may use which tool for which operation; ``*`` matches any."""

    paths = serializers.ListField(
        child=RawText(), required=False, help_text="Globs inside the workspace; empty means any path."
    )
    reason = _reason(required=True)

    class Meta:
        model = AccessRule
        fields: tuple[str, ...] = ("agent_type", "tool", "operation", "access", "paths", "note", "reason")


class AccessRuleInput(AccessRuleChange):
    """A new one; where there is the same already, that is given back."""

    project = serializers.CharField(help_text=PROJECT)

    class Meta(AccessRuleChange.Meta):
        fields = ("project", *AccessRuleChange.Meta.fields)


class AccessRuleOutput(serializers.ModelSerializer):
    paths = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = AccessRule
        fields = ("id", "project", "agent_type", "tool", "operation", "access", "paths", "note")


OF_POLICY = (
    *("final_review", "gate_expiry_minutes", "expiry_outcome", "sla_minutes", "own_approval_allowed", "warn_at"),
    *("calls_per_reply", "confidence_every_steps", "confidence_threshold", "task_limits", "open_runs_per_person"),
    "try_criteria",
    *COMMAND_LIMITS,
)


class PolicyChange(Strict, serializers.ModelSerializer):
    """Thresholds of one project. Each change makes a version, which runs name."""

    final_review = serializers.ChoiceField(REVIEWS, required=False)
    task_limits = LimitsInput(required=False, help_text="The most that a task gets unless an admin submits it.")
    reason = _reason(required=True)

    class Meta:
        model = Policy
        fields = (*OF_POLICY, "reason")


class PolicyOutput(serializers.ModelSerializer):
    final_review = serializers.ChoiceField(REVIEWS)
    task_limits = serializers.DictField(child=serializers.IntegerField())

    class Meta:
        model = Policy
        fields = ("id", "project", *OF_POLICY)


OF_MODEL = (
    *("name", "provider", "model_id", "base_url", "api_key_env", "max_tokens", "context_window", "calls_at_once"),
    *("first_byte_s", "timeout_s", "thinking", "xml_tools", "input_usd_per_mtok", "output_usd_per_mtok"),
    *("cache_read_usd_per_mtok", "cache_write_usd_per_mtok", "pace", "fallback"),
)


class ModelChange(Strict, serializers.ModelSerializer):
    """A model that agents may use. The key is named by its environment variable and never sent here."""

    provider = serializers.CharField(max_length=20)
    fallback = serializers.CharField(
        required=False, allow_null=True, max_length=100, help_text="Name of the model that is asked instead."
    )
    allow = serializers.BooleanField(
        required=False, help_text=f"The key goes to this address, or it leads into your own network: {ALLOW}"
    )
    reason = _reason()

    class Meta:
        model = ModelConfig
        fields = (*OF_MODEL, "allow", "reason")
        extra_kwargs = {"name": {"validators": []}}


class ModelSettings(serializers.ModelSerializer):
    """``test_result`` is what its latest test found; it may name the address."""

    fallback = serializers.CharField(source="fallback.name", default=None, allow_null=True)

    class Meta:
        model = ModelConfig
        fields = (*OF_MODEL, "tested_at", "test_result")


class OneModelOutput(ModelOutput):
    """With what was set up, and what its latest test found."""

    settings = serializers.SerializerMethodField(help_text="As it was set up; null for who may not see that in Admin.")

    class Meta(ModelOutput.Meta):
        fields = [*ModelOutput.Meta.fields, "settings"]

    @extend_schema_field(ModelSettings(allow_null=True))
    def get_settings(self, model: ModelConfig) -> Any:
        """Addresses and names of variables are for those who see them in Admin."""
        user = self.context["request"].user
        may_see = user.is_superuser or (user.is_staff and user.has_perm("loops.view_modelconfig"))
        return ModelSettings(model).data if may_see else None
