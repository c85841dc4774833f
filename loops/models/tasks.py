"""Tasks: a goal with acceptance criteria, constraints and limits, in a workspace (SPEC section 0, J6)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.conf import settings
from django.db import models

from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.ids import new_id, new_key
from loops.models.agents import Agent
from loops.models.people import Project
from loops.models.policies import of_a_workspace
from loops.querysets import ProjectScoped


class Workspace(models.Model):
    """A folder that the tools of a task may work in. ``path`` is absolute and lies on every worker machine.

    Instead of it, ``git_url`` names a repository on a server, of which ``git_ref`` is fetched. ``git_token_env`` is the
    name of a variable of the worker; its value is stored nowhere. A superuser lets it be fetched (ADR 0068), and, with
    ``git_push_token_env``, lets people push results to it (ADR 0075). With a ``path``, ``git_ref`` is of the repository
    there.
    ``allowed_*`` say which folder outside the roots a superuser opened to the project, and in which use (ADR 0036).
    ``setup_command``, ``test_command`` and ``variables`` are stated on the workspace's page; ``network_*`` say which
    hosts a superuser let the set-up reach, and ``secret_names`` which variables of the worker it gets. Both end when
    its command, its variables or the folder change, whoever changes them (ADR 0067).
    ``toml_text`` is the content of its `agentops.toml` that a person accepted, of which ``criteria`` and ``protected``
    come; ``toml_declined`` is the SHA-256 of another content that a person did not want (ADR 0070).
    What a command may use here stands in the columns named as those of the policy; NULL: as the policy says.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="workspaces")
    name = models.CharField(max_length=120)
    path = models.CharField(max_length=500, blank=True, help_text="Empty: a fresh empty folder for every task.")
    git_url = models.CharField("repository", max_length=400, blank=True, help_text="https, without credentials.")
    git_ref = models.CharField(
        "branch, tag or commit", max_length=250, blank=True, help_text="Empty: the branch that the server names."
    )
    git_token_env = models.CharField(
        "token variable", max_length=100, blank=True, help_text="Name of a variable of the worker; empty: no token."
    )
    git_push_token_env = models.CharField(
        "token variable for pushing",
        max_length=100,
        blank=True,
        help_text="Name of a variable of the worker, whose token may write; empty: no result is pushed.",
    )
    git_for = models.CharField(max_length=64, blank=True, editable=False)
    git_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.PROTECT, related_name="+"
    )
    git_at = models.DateTimeField(null=True, blank=True, editable=False)
    copy_for_each_run = models.BooleanField(
        default=True, help_text="Each run works on its own copy, so that runs never disturb each other."
    )
    allowed_path = models.CharField(max_length=500, blank=True, editable=False)
    allowed_in_place = models.BooleanField(default=False, editable=False)
    allowed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.PROTECT, related_name="+"
    )
    allowed_at = models.DateTimeField(null=True, blank=True, editable=False)
    setup_command = models.TextField(blank=True, editable=False)
    test_command = models.CharField(max_length=2000, blank=True, editable=False)
    variables = models.JSONField(default=dict, editable=False)
    network_hosts = models.JSONField(default=list, editable=False)
    secret_names = models.JSONField(default=list, editable=False)
    network_for = models.CharField(max_length=64, blank=True, editable=False)
    network_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.PROTECT, related_name="+"
    )
    network_at = models.DateTimeField(null=True, blank=True, editable=False)
    toml_text = models.TextField(blank=True, editable=False)
    toml_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.PROTECT, related_name="+"
    )
    toml_at = models.DateTimeField(null=True, blank=True, editable=False)
    toml_declined = models.CharField(max_length=64, blank=True, editable=False)
    criteria = models.JSONField(default=list, editable=False)
    protected = models.JSONField(default=list, editable=False)
    criterion_seconds = of_a_workspace("criterion_seconds")
    command_seconds = of_a_workspace("command_seconds")
    command_memory_mib = of_a_workspace("command_memory_mib")
    command_processes = of_a_workspace("command_processes")
    workspace_mib = of_a_workspace("workspace_mib")
    workspace_files = of_a_workspace("workspace_files")
    command_output_mib = of_a_workspace("command_output_mib")

    objects = ProjectScoped.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="workspace_name_once_per_project")]

    def __str__(self) -> str:
        return self.name

    @property
    def what_a_grant_is_for(self) -> str:
        """The hash of it: this command, with these variables, in this folder or repository."""
        variables = f"\0{json.dumps(self.variables, sort_keys=True)}" if self.variables else ""
        return hashlib.sha256(f"{self.path or self.git_url}\0{self.setup_command}{variables}".encode()).hexdigest()

    @property
    def _is_granted(self) -> bool:
        return bool(self.network_by_id) and self.network_for == self.what_a_grant_is_for

    @property
    def granted_hosts(self) -> list[str]:
        """Those that its set-up may reach now."""
        return list(self.network_hosts) if self._is_granted else []

    @property
    def granted_secrets(self) -> list[str]:
        """Names of the variables of its worker that its set-up gets now."""
        return list(self.secret_names) if self._is_granted else []

    @property
    def proposed_criteria(self) -> list[dict[str, str]]:
        """What new tasks on it are judged by, unless somebody says otherwise."""
        stated = any(one["command"] == self.test_command for one in self.criteria)
        tests = {"text": "The tests pass", "command": self.test_command}
        return [*([tests] if self.test_command and not stated else []), *self.criteria]

    @property
    def own_limits(self) -> dict[str, int]:
        """What a command may use here where that is not what the project's policy says."""
        stated = ((name, getattr(self, name)) for name in COMMAND_LIMITS)
        return {name: amount for name, amount in stated if amount is not None}

    @property
    def source(self) -> str:
        """What runs get copies of; "" where they begin with an empty folder."""
        return self.path or self.git_url

    @property
    def is_fetched(self) -> bool:
        """Do runs get a commit of a repository, on a server or in the folder, instead of files as they lie?"""
        return bool(self.git_url or (self.path and self.git_ref))

    def latest(self, kind: str) -> Any:
        """Its latest set-up or fetch (``Setup.Kind``), however that went; None where there is none."""
        return self.setups.filter(kind=kind).first()

    @property
    def what_is_fetched(self) -> str:
        """The hash of what a superuser allowed: to fetch from this address, with this token, and to push with that."""
        pushed = f"\0{self.git_push_token_env}" if self.git_push_token_env else ""
        return hashlib.sha256(f"{self.git_url}\0{self.git_token_env}{pushed}".encode()).hexdigest()

    @property
    def may_be_fetched(self) -> bool:
        """Did a superuser say so, of the address as it is now?"""
        return bool(self.git_by_id) and self.git_for == self.what_is_fetched

    @property
    def may_be_pushed_to(self) -> bool:
        """Did a superuser let people push results to it, as its address and tokens are now?"""
        return bool(self.git_push_token_env) and self.may_be_fetched


class Task(models.Model):
    class Complexity(models.TextChoices):
        ESTIMATE = "", "Estimate it"
        SIMPLE = "simple", "Simple"
        MODERATE = "moderate", "Moderate"
        COMPLEX = "complex", "Complex"

    id = models.CharField(primary_key=True, max_length=100, default=new_key, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tasks")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="tasks")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="tasks", null=True, blank=True)
    title = models.CharField(max_length=200)
    goal = models.TextField()
    criteria = models.JSONField(default=list, help_text='[{"text": str, "command": str}], command may be empty.')
    constraints_text = models.TextField(blank=True)
    output_schema = models.JSONField(null=True, blank=True, help_text="JSON Schema that the result must satisfy.")
    complexity = models.CharField(max_length=20, choices=Complexity, blank=True, default="")
    limits = models.JSONField(
        default=dict, blank=True, help_text="Overrides of the profile: max_steps, max_seconds, ..."
    )
    execution_loop = models.CharField(max_length=40, blank=True, help_text="Empty: the agent's own.")
    final_review = models.CharField(max_length=20, blank=True, help_text="Empty: the project's policy.")
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - absent is no key
    content_sha256 = models.CharField(max_length=64, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="tasks")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProjectScoped.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "created_by", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="task_idempotency_key_once",
            )
        ]

    def __str__(self) -> str:
        return self.title
