"""What admins tune (SPEC S1, D2, I3). Every change makes a PolicyVersion; a run records the version it used."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from loops.ids import new_id
from loops.models.people import Project


class ComplexityProfile(models.Model):
    """Limits of a run by complexity (SPEC D2). Defaults are those of the sources."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(unique=True)
    max_steps = models.PositiveIntegerField(default=20, validators=[MinValueValidator(1), MaxValueValidator(10_000)])
    max_seconds = models.PositiveIntegerField(default=600, validators=[MinValueValidator(10)])
    max_failures = models.PositiveIntegerField(default=3, validators=[MinValueValidator(1)], help_text="In a row.")
    max_tokens = models.PositiveIntegerField(default=500_000, validators=[MinValueValidator(1000)])
    max_cost_usd = models.DecimalField(max_digits=8, decimal_places=2, default=5)
    max_repairs = models.PositiveIntegerField(
        default=3, validators=[MaxValueValidator(20)], help_text="Repairs of a result before a person is asked."
    )
    max_attempts = models.PositiveIntegerField(
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text="Failed steps in a row before the agent has to give up an approach.",
    )
    reflect_after = models.PositiveIntegerField(
        default=3,
        validators=[MaxValueValidator(100)],
        help_text="Tool errors in a row before the agent has to reflect; 0: never.",
    )
    max_backtracks = models.PositiveIntegerField(
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text="Approaches given up before a person is asked.",
    )
    confirm_after = models.PositiveIntegerField(
        default=20,
        validators=[MaxValueValidator(10_000)],
        help_text="Steps without a person before one is asked whether to go on; 0: never.",
    )
    max_extensions = models.PositiveIntegerField(
        default=20,
        validators=[MaxValueValidator(100)],
        help_text="How often people may let a run go on past a limit or out of a loop, in all.",
    )

    class Meta:
        ordering = ["max_steps"]

    def __str__(self) -> str:
        return self.name


class Policy(models.Model):
    """Thresholds of one project. One row a project; edits are versioned."""

    class FinalReview(models.TextChoices):
        ALWAYS = "always", "Always"
        UNLESS_VERIFIED = "unless_verified", "Unless a command proved the criteria"
        NEVER = "never", "Never"

    class ExpiryOutcome(models.TextChoices):
        REJECT = "reject", "Reject"
        ESCALATE = "escalate", "Escalate (leave open, mark overdue)"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="policy")
    final_review = models.CharField(max_length=20, choices=FinalReview, default=FinalReview.UNLESS_VERIFIED)
    gate_expiry_minutes = models.PositiveIntegerField(default=7 * 24 * 60, validators=[MinValueValidator(1)])
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

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return f"Policy of {self.project}"


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
        constraints = [models.UniqueConstraint(fields=["project", "number"], name="policy_version_once")]

    def __str__(self) -> str:
        return f"v{self.number}"
