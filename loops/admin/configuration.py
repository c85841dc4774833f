"""What admins tune: policy, matrix, profiles, agents, models (SPEC S1, S3, D2, I3)."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from unfold.decorators import action
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanWidget

from loops import models as m
from loops.admin.base import Checked, GlobalAdmin, OfTheInstallation, RequireReasonMixin, VersionedAdmin
from loops.agents import packages
from loops.engine import strategies
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.engine.state.limits import FIELD_OF
from loops.services import keys as pairing
from loops.services import model_tests, models
from loops.services.access_rules import ACCESS_RULES
from loops.services.agents import AGENTS
from loops.services.configuration import Unfit
from loops.services.model_configs import MODELS
from loops.services.people import NotPossible
from loops.services.policy_settings import POLICIES


class PolicyForm(Checked, RequireReasonMixin):
    kind = POLICIES

    class Meta:
        labels: ClassVar = {
            "gate_expiry_minutes": "Expires after (minutes)",
            "expiry_outcome": "When it expires",
            "sla_minutes": "Late after (minutes)",
            "warn_at": "Warn at (share of a limit)",
            "calls_per_reply": "Max tool calls per turn",
            "confidence_every_steps": "Judge confidence every (steps)",
            "own_approval_allowed": "Allow people to approve their own tasks",
            "try_criteria": "Try criteria before a run begins",
            "open_runs_per_person": "Max open runs per person",
            **{name: row.form_label for name, row in COMMAND_LIMITS.items()},
        }
        help_texts: ClassVar = {
            "confidence_threshold": (
                "A score below this is low confidence, and a person is asked; from 0.8 it is high. The score runs from "
                "0 to 1 and is not calibrated: 0.5 does not mean that every other run succeeds. A lower threshold asks "
                "less often. agentops/docs/confidence.md says what was measured."
            ),
        }


@admin.register(m.Policy)
class PolicyAdmin(VersionedAdmin):
    form = PolicyForm
    kind = POLICIES
    list_display = ("project", "final_review", "gate_expiry_minutes", "expiry_outcome", "own_approval_allowed")

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """It comes with its project."""
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """It stays with its project."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """A policy does not move house."""
        return ("project",)


@admin.register(m.ComplexityProfile)
class ProfileAdmin(GlobalAdmin):
    form = RequireReasonMixin
    list_display = ("name", *(shown for shown in FIELD_OF if hasattr(m.ComplexityProfile, shown)))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tasks name these three."""
        return obj is not None and obj.name not in m.Task.Complexity.values


class AccessRuleForm(Checked, RequireReasonMixin):
    kind = ACCESS_RULES


class AccessRuleOfList(Checked):
    kind = ACCESS_RULES


@admin.register(m.AccessRule)
class AccessRuleAdmin(VersionedAdmin):
    form = AccessRuleForm
    kind = ACCESS_RULES
    list_display = ("agent_type", "tool", "operation", "access", "paths", "note", "project")
    list_editable = ("access",)
    list_filter = ("project", "agent_type", "access")
    search_fields = ("agent_type", "tool", "operation", "note")

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> Any:
        """What is edited in the list has the rules of the form."""
        return super().get_changelist_form(request, **{"form": AccessRuleOfList, **kwargs})


class AgentForm(Checked):
    kind = AGENTS
    execution_loop = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    program = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="The agent of an installed package that leads its runs. Empty: the execution loop alone does.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        programs = [("", "---------"), *((name, name) for name in packages.names())]
        self.fields["program"].choices = programs  # type: ignore[attr-defined]
        self.fields["execution_loop"].choices = [(name, name) for name in strategies.names()]  # type: ignore[attr-defined]


@admin.register(m.Agent)
class AgentAdmin(VersionedAdmin):
    form = AgentForm
    kind = AGENTS
    list_display = ("name", "project", "agent_type", "execution_loop", "models_in_order", "is_active")
    list_filter = ("project", "is_active")
    list_select_related = ("project", "actor_model__fallback__fallback")
    search_fields = ("name",)

    @admin.display(description="models, in the order in which they are asked")
    def models_in_order(self, agent: m.Agent) -> str:
        """The actor's model and its fallbacks."""
        return ", then ".join(model.name for model in agent.actor_model.chain())


class ModelForm(Checked):
    kind = MODELS
    is_answered_for = False
    provider = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    send_there = forms.BooleanField(
        required=False,
        label="Allow this address",
        widget=UnfoldBooleanWidget,
        help_text="Needed where the address is not the provider's own: the API key is sent to it, or it leads into "
        "your own network. Who allowed it is listed under Allowed addresses.",
    )

    class Meta:
        labels: ClassVar = {
            "model_id": "Model ID",
            "base_url": "Base URL",
            "api_key_env": "API key variable",
            "max_tokens": "Max tokens per answer",
            "context_window": "Context window (tokens)",
            "calls_at_once": "Max calls at once",
            "first_byte_s": "Timeout to first token (s)",
            "timeout_s": "Timeout between tokens (s)",
            "xml_tools": "Tools as XML",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = MODELS.providers(self.instance)
        self.fields["provider"].choices = [("", "---------"), *names.items()]  # type: ignore[attr-defined]

    def _get_validation_exclusions(self) -> set[str]:
        return super()._get_validation_exclusions() | {"provider"}  # type: ignore[misc,no-any-return]

    def _post_clean(self) -> None:
        super()._post_clean()
        if self.errors:
            return
        try:
            asked = MODELS.to_allow(self.instance)
        except Unfit as error:
            for field, fault in error.errors.items():
                self.add_error(field, fault)
            return
        self.is_answered_for = bool(asked)
        if asked and not self.cleaned_data.get("send_there"):
            self.add_error("send_there", f"{asked} Tick “Allow this address” if that is meant.")


@admin.register(m.ModelConfig)
class ModelConfigAdmin(GlobalAdmin):
    form = ModelForm
    kind = MODELS
    readonly_fields = ("window", "latest_test")
    actions_submit_line = ("save_and_test",)
    list_display = (
        "name",
        "provider",
        "model_id",
        "max_tokens",
        "window",
        "calls_at_once",
        "thinking",
        "fallback",
        "input_usd_per_mtok",
        "output_usd_per_mtok",
    )
    list_filter = ("provider",)
    list_select_related = ("fallback",)
    search_fields = ("name", "model_id")

    @admin.display(description="window")
    def window(self, row: m.ModelConfig) -> str:
        """With its source."""
        return models.window_in_words(row) if row.pk and row.provider else "-"

    @admin.display(description="latest test")
    def latest_test(self, row: m.ModelConfig) -> str:
        """What was found, a line for each thing."""
        if not row.test_result:
            return "Never tested."
        when = [f"On {row.tested_at:%Y-%m-%d %H:%M} UTC:"] if row.tested_at else []
        return format_html_join(mark_safe("<br>"), "{}", ((line,) for line in [*when, *row.test_result.split("\n")]))

    @action(description="Save and test this model", permissions=["change"])
    def save_and_test(self, request: HttpRequest, row: m.ModelConfig) -> None:
        """One call with a tool, by a worker."""
        try:
            model_tests.order_test(actor=request.user, row=row)
        except NotPossible as error:
            messages.error(request, str(error))

    def response_change(self, request: HttpRequest, obj: m.ModelConfig) -> HttpResponse:
        """Who tests a model wants to see what comes of it."""
        if any(name.endswith("_save_and_test") for name in request.POST):
            return HttpResponseRedirect(request.path)
        return super().response_change(request, obj)


@admin.register(m.ModelAddress)
class ModelAddressAdmin(OfTheInstallation):
    list_display = ("key_name", "origin", "inward", "allowed_by", "allowed_at")
    list_select_related = ("allowed_by",)

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """They come with the model that needs them."""
        return False

    def has_change_permission(self, request: HttpRequest, *_: Any) -> bool:
        """What was allowed is allowed anew, or taken back."""
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Superusers."""
        return bool(request.user.is_active and request.user.is_superuser)

    def delete_model(self, request: HttpRequest, obj: m.ModelAddress) -> None:
        """No model sends the key there any more, from its next call on."""
        pairing.take_back(obj, actor=request.user)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Each is said."""
        for row in queryset:
            pairing.take_back(row, actor=request.user)
