"""Projects and who works in them (SPEC S4). Roles are per project; staff superusers see everything."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

from loops.ids import new_id, new_key
from loops.querysets import ProjectQuerySet


class Project(models.Model):
    id = models.CharField(primary_key=True, max_length=100, default=new_key, editable=False)
    name = models.CharField(max_length=120)
    slug = models.SlugField(unique=True)
    is_demo = models.BooleanField(default=False)
    keep_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        verbose_name="days to keep",
        help_text="After this many days an ended run loses its copy of the workspace and its long texts; facts, "
        "results, provenance and audit stay. Empty: everything is kept for ever.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="projects")

    objects = ProjectQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    class Role(models.TextChoices):
        OPERATOR = "operator", "Operator"
        REVIEWER = "reviewer", "Reviewer"
        ADMIN = "admin", "Admin"
        VIEWER = "viewer", "Viewer"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user", "role"], name="one_membership_per_role")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"
