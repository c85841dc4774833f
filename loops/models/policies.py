"""What admins tune (SPEC S1, D2, I3). Every change makes a PolicyVersion; a run records the version it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.core.validators import BaseValidator, MaxValueValidator, MinValueValidator
from django.db import models

from loops.engine.state import command_limits
from loops.engine.state.command_limits import COMMAND_LIMITS, CommandLimits
from loops.engine.state.limits import DEFAULTS, LIMITS, Limit
from loops.ids import new_id
from loops.models.people import Project
from loops.querysets import ProjectScoped

MOST_OPEN_RUNS = 100
"""Of one person in one project, until an admin says otherwise."""


class Place(Protocol):
    """A workspace."""

    @property
    def own_limits(self) -> Mapping[str, int]: ...


def _amount(name: str, default: int | None = None) -> models.PositiveIntegerField[int, int]:
    """A field for a limit, with the bounds that hold for everybody who sets it."""
    return _within(LIMITS[name], getattr(DEFAULTS, name) if default is None else default)


def _of_commands(name: str) -> models.PositiveIntegerField[int, int]:
    """The same for what a command may use."""
    return _within(COMMAND_LIMITS[name], getattr(command_limits.DEFAULTS, name))


def of_a_workspace(name: str) -> models.PositiveIntegerField[int | None, int | None]:
    """The same where a workspace may differ from its project; empty where it does not."""
    row = COMMAND_LIMITS[name]
    help_text = f"Empty: as the project's policy. {row.help}"
    return models.PositiveIntegerField(null=True, blank=True, validators=_bounds(row), help_text=help_text)


def _within(row: Limit, default: int) -> models.PositiveIntegerField[int, int]:
    return models.PositiveIntegerField(default=default, validators=_bounds(row), help_text=row.help)


def _bounds(row: Limit) -> list[BaseValidator]:
    return [MinValueValidator(row.low // row.scale), MaxValueValidator(row.high // row.scale)]


class ComplexityProfile(models.Model):
    """Limits of a run by complexity (SPEC D2). Defaults are those of the sources."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(unique=True)
    max_steps = _amount("max_steps")
    max_seconds = _amount("max_seconds")
    max_failures = _amount("max_failures")
    max_tokens = _amount("max_tokens")
    max_cost_usd = models.DecimalField(
        max_digits=8, decimal_places=2, default=5, validators=_bounds(LIMITS["max_cost_microusd"])
    )
    max_repairs = _amount("max_repairs")
    max_attempts = _amount("max_attempts")
    reflect_after = _amount("reflect_after")
    max_backtracks = _amount("max_backtracks")
    confirm_after = _amount("confirm_after", 20)
    max_extensions = _amount("max_extensions")

    class Meta:
        ordering = ["max_steps"]

    def __str__(self) -> str:
        return self.name


class Policy(models.Model):
    """Thresholds of one project. One row a project; edits are versioned."""

    class FinalReview(models.TextChoices):
        ALWAYS = "always", "Always"
        UNLESS_VERIFIED = "unless_verified", "Unless every criterion is proved"
        NEVER = "never", "Never"

    class ExpiryOutcome(models.TextChoices):
        REJECT = "reject", "Reject"
        ESCALATE = "escalate", "Escalate (leave open, mark overdue)"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="policy")
    final_review = models.CharField(
        max_length=20,
        choices=FinalReview,
        default=FinalReview.UNLESS_VERIFIED,
        help_text="A command proves its criterion by a report of single tests, which pass in a clean checkout and fail "
        "without the work. What only exits well, or is only claimed, a person is asked about.",
    )
    gate_expiry_minutes = models.PositiveIntegerField(
        default=7 * 24 * 60,
        validators=[MinValueValidator(1)],
        help_text="A gate that nobody decides within this time expires. Open gates keep the deadline they have.",
    )
    expiry_outcome = models.CharField(max_length=20, choices=ExpiryOutcome, default=ExpiryOutcome.REJECT)
    sla_minutes = models.PositiveIntegerField(default=60, help_text="A gate waiting longer than this is late.")
    own_approval_allowed = models.BooleanField(
        default=True, help_text="May the person who submitted a task approve its gates?"
    )
    warn_at = models.FloatField(default=0.8, validators=[MinValueValidator(0.1), MaxValueValidator(0.99)])
    calls_per_reply = models.PositiveIntegerField(default=8, validators=[MinValueValidator(1), MaxValueValidator(64)])
    confidence_every_steps = models.PositiveIntegerField(
        default=5,
        validators=[MaxValueValidator(1000)],
        help_text="How often the confidence of a run is judged, and at the agent's own doubt in between; 0 for never.",
    )
    confidence_threshold = models.FloatField(
        default=0.5,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="Below this a person is asked whether the run goes on.",
    )
    try_criteria = models.BooleanField(
        default=True,
        help_text="Run the commands of acceptance criteria once before the first request to a model: what keeps them "
        "from running is found before anything is paid for. It costs one more run of each command.",
    )

    task_limits = models.JSONField(
        default=dict,
        blank=True,
        help_text='The most that a task gets unless an admin submits it, like {"max_steps": 200, "max_cost_usd": 60}. '
        "What is not named here: the largest amount of any complexity profile.",
    )
    open_runs_per_person = models.PositiveIntegerField(
        default=MOST_OPEN_RUNS,
        validators=[MinValueValidator(1), MaxValueValidator(10_000)],
        help_text="How many runs of one person may be queued, at work or waiting at the same time.",
    )
    criterion_seconds = _of_commands("criterion_seconds")
    command_seconds = _of_commands("command_seconds")
    command_memory_mib = _of_commands("command_memory_mib")
    command_processes = _of_commands("command_processes")
    workspace_mib = _of_commands("workspace_mib")
    workspace_files = _of_commands("workspace_files")
    command_output_mib = _of_commands("command_output_mib")

    objects = ProjectScoped.as_manager()

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return f"Policy of {self.project}"

    @property
    def command_limits(self) -> CommandLimits:
        """What a command of this project may use, where its workspace states nothing else."""
        return CommandLimits(**{name: getattr(self, name) for name in COMMAND_LIMITS})

    def commands_in(self, workspace: Place | None) -> CommandLimits:
        """What a command may use there."""
        return self.command_limits.with_those_of(workspace.own_limits if workspace is not None else {})


class AccessRule(models.Model):
    """A cell of the tool access matrix: agent type x tool x operation (SPEC I3). ``*`` matches any."""

    class Access(models.TextChoices):
        ALLOW = "allow", "Allow"
        ASK = "ask", "Ask a person"
        DENY = "deny", "Deny"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="access_rules")
    agent_type = models.CharField(max_length=50, default="*")
    tool = models.CharField(max_length=100, default="*")
    operation = models.CharField(max_length=50, default="*")
    access = models.CharField(max_length=10, choices=Access)
    paths = models.JSONField(default=list, blank=True, help_text="Globs inside the workspace; empty means any path.")
    note = models.CharField(max_length=200, blank=True)

    objects = ProjectScoped.as_manager()

    class Meta:
        ordering = ["agent_type", "tool", "operation"]

    def __str__(self) -> str:
        return f"{self.agent_type} / {self.tool} / {self.operation}: {self.access}"


class PolicyVersion(models.Model):
    """A snapshot of everything that decided for a run: policy, profiles, matrix. Content-addressed."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="policy_versions")
    number = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    snapshot = models.JSONField()
    reason = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        indexes = [BrinIndex(fields=["created_at"], name="policy_version_made", autosummarize=True)]
        constraints = [models.UniqueConstraint(fields=["project", "number"], name="policy_version_once")]

    def __str__(self) -> str:
        return f"v{self.number}"
