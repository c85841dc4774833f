"""Runs, steps and calls: what people and SQL read. All of it is a projection of the journal (architecture#journal).

Their foreign keys to the run carry no constraint of their own: ``journal_append`` has locked the run's row before it
writes any of them, and a check per row would double the cost of a step (benchmarks.md).

Rows here are written by ``loops.storage.journal`` in the same transaction as the facts they come from, and can be
rebuilt from them. Only ``Run`` is made by a service (submission). Table and column names of the first two are
D83's (SPEC W1); text and JSON are clean (no NUL, no lone surrogates).
"""

from __future__ import annotations

from django.db import models

from loops.ids import new_id
from loops.models.agents import Agent
from loops.models.people import Project
from loops.models.tasks import Task
from loops.querysets import RunQuerySet, ThroughRun


class Run(models.Model):
    class Status(models.TextChoices):
        """What a person is told (SPEC A2)."""

        QUEUED = "queued", "Queued"
        INITIALIZING = "initializing", "Starting"
        THINKING = "thinking", "Thinking"
        EXECUTING_TOOL = "executing_tool", "Using a tool"
        WAITING = "waiting", "Waiting for a person"
        WAITING_FOR_RESOURCE = "waiting_for_resource", "Waiting for its workspace, its turn or a model"
        PAUSED = "paused", "Paused"
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        INTERRUPTED = "interrupted", "Stopped"
        ESCALATED = "escalated", "Escalated"

    AT_WORK = (Status.INITIALIZING, Status.THINKING, Status.EXECUTING_TOOL)
    ENDED = (Status.COMPLETED, Status.FAILED, Status.INTERRUPTED, Status.ESCALATED)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    started_at = models.DateTimeField(auto_now_add=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    total_steps = models.IntegerField(default=0)
    final_status = models.CharField(
        max_length=50,
        blank=True,
        default="",
        help_text="success, finished (not proven), contradicted, failed, interrupted, escalated",
    )
    escalation_reason = models.TextField(
        blank=True, default="", help_text="Why a person is asked, or was at the end, because it could not go on."
    )
    paused_by = models.CharField(max_length=150, blank=True, default="", help_text='A person, or "monitor".')
    paused_reason = models.CharField(
        max_length=1000, blank=True, default="", help_text="Why, where the monitor did it."
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    total_cost_usd = models.DecimalField(max_digits=10, decimal_places=4, default=0)
    total_tokens = models.IntegerField(default=0)
    state_snapshot = models.JSONField(null=True, blank=True)

    # live head of the journal
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    phase = models.CharField(max_length=12, default="PLAN")
    end_reason = models.CharField(max_length=50, blank=True, default="", help_text="Reason code (SPEC D1).")
    waiting_kind = models.CharField(
        max_length=20, blank=True, default="", help_text="What it waits for, while it does."
    )
    waiting_name = models.CharField(
        max_length=200, blank=True, default="", help_text="Which: the kind of the gate, the model."
    )
    waiting_on = models.CharField(
        max_length=200, blank=True, default="", help_text="The same in words; of a run at work what it does."
    )
    max_steps = models.IntegerField(default=0)
    progress = models.FloatField(default=0.0)
    cost_unknown = models.BooleanField(default=False, help_text="Some call had no known price: show the cost with >=.")
    scripted = models.BooleanField(default=False, help_text="No language model is behind this run.")
    head_seq = models.BigIntegerField(default=0)
    head_hash = models.BinaryField(default=bytes)
    last_activity_at = models.DateTimeField(auto_now_add=True)
    active_us = models.BigIntegerField(
        default=0, help_text="Microseconds at work until then: waiting for people, models and folders is not counted."
    )
    policy_version = models.CharField(max_length=80, blank=True, default="")
    workspace_path = models.CharField(max_length=500, blank=True, default="")
    copied_from = models.CharField(max_length=500, blank=True, default="", editable=False)

    # ownership: a lease with a fencing token (SPEC J3)
    epoch = models.BigIntegerField(default=0)
    owner = models.CharField(max_length=200, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    runnable = models.BooleanField(default=True, help_text="Something is to be done; false while waiting or ended.")
    wake_at = models.DateTimeField(null=True, blank=True, help_text="Runnable again from then on (a timer).")
    recoveries = models.IntegerField(default=0)

    objects = RunQuerySet.as_manager()

    class Meta:
        db_table = "agent_execution_history"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["project", "-id"], name="run_by_project"),
            models.Index(fields=["id"], name="run_runnable", condition=models.Q(runnable=True)),
            models.Index(fields=["lease_until"], name="run_owned", condition=~models.Q(owner="")),
            models.Index(fields=["workspace_path"], name="run_in_folder"),
            models.Index(fields=["wake_at"], name="run_sleeping", condition=models.Q(wake_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"Run {self.id}"

    @property
    def is_ended(self) -> bool:
        return self.status in self.ENDED

    @property
    def is_at_work(self) -> bool:
        """Its time is charged: it neither rests nor waits for a worker."""
        return self.status in self.AT_WORK


class Step(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    execution = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps", db_index=False)
    step_number = models.IntegerField()
    timestamp = models.DateTimeField()
    reasoning = models.TextField(blank=True, default="")
    action = models.JSONField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    validation = models.JSONField(null=True, blank=True)
    success = models.BooleanField(null=True)
    tokens_used = models.IntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=10, decimal_places=4, default=0)

    phase = models.CharField(max_length=12, default="ACT")
    said = models.TextField(blank=True, default="", help_text="Text the model wrote beside its calls.")
    error = models.TextField(blank=True, default="")
    progress = models.FloatField(default=0.0)
    duration_ms = models.IntegerField(default=0)
    first_seq = models.BigIntegerField(default=0)
    last_seq = models.BigIntegerField(default=0)

    class Meta:
        db_table = "agent_execution_steps"
        ordering = ["step_number"]
        constraints = [models.UniqueConstraint(fields=["execution", "step_number"], name="step_once")]

    def __str__(self) -> str:
        return f"Step {self.step_number}"


class ModelCall(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="model_calls", db_constraint=False, db_index=False
    )
    seq = models.BigIntegerField(help_text="Sequence number of the fact that recorded the answer.")
    step_number = models.IntegerField()
    phase = models.CharField(max_length=12)
    role = models.CharField(max_length=20)
    model = models.CharField(max_length=120)
    provider = models.CharField(max_length=20)
    model_id = models.CharField(max_length=200)
    stop_reason = models.CharField(max_length=40)
    input_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    cache_read_tokens = models.IntegerField(default=0)
    cache_write_tokens = models.IntegerField(default=0)
    cost_microusd = models.BigIntegerField(null=True)
    duration_ms = models.IntegerField(default=0)
    request_sha256 = models.CharField(max_length=64, blank=True, default="")
    request_id = models.CharField(max_length=120, blank=True, default="")

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="model_call_once")]

    def __str__(self) -> str:
        return f"{self.model} at {self.seq}"


class ToolCallRecord(models.Model):
    """The write-ahead log of one tool call, as people read it (SPEC J1)."""

    class State(models.TextChoices):
        PROPOSED = "PROPOSED", "Proposed"
        WAITING = "WAITING", "Waiting for approval"
        INTENT = "INTENT", "Running"
        COMPLETE = "COMPLETE", "Done"
        ABORT = "ABORT", "Not run"
        IN_DOUBT = "IN_DOUBT", "In doubt"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="tool_calls", db_constraint=False, db_index=False
    )
    call_id = models.CharField(max_length=120, help_text="Unique inside the run.")
    provider_call_id = models.CharField(max_length=120, blank=True, default="")
    step_number = models.IntegerField()
    position = models.IntegerField(default=0)
    tool = models.CharField(max_length=100)
    arguments = models.JSONField(null=True, help_text="Long strings are cut for display; the fact holds them whole.")
    state = models.CharField(max_length=10, choices=State, default=State.PROPOSED)
    access = models.CharField(max_length=10, blank=True, default="")
    reasons = models.JSONField(default=list)
    attempt = models.IntegerField(default=1)
    idempotency_key = models.CharField(max_length=64, blank=True, default="")
    gate_id = models.UUIDField(null=True)
    ok = models.BooleanField(null=True)
    output = models.TextField(blank=True, default="", help_text="What the model read, cut for display.")
    output_sha256 = models.CharField(max_length=64, blank=True, default="")
    error = models.TextField(blank=True, default="")
    exit_code = models.IntegerField(null=True)
    data = models.JSONField(null=True, help_text="Diff, test counts, files changed.")
    started_at = models.DateTimeField(null=True)
    duration_ms = models.IntegerField(default=0)
    sandbox_level = models.IntegerField(default=0)

    class Meta:
        ordering = ["step_number", "position"]
        constraints = [models.UniqueConstraint(fields=["run", "call_id"], name="tool_call_once")]

    def __str__(self) -> str:
        return f"{self.tool} ({self.state})"


class Artifact(models.Model):
    """Something a run left: its result, a report, a whole output. The bytes are a blob."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="artifacts", db_constraint=False, db_index=False
    )
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=30, help_text="result, failure_report, halt_record, output, file")
    name = models.CharField(max_length=300)
    media_type = models.CharField(max_length=100, default="text/plain")
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField(default=0)

    objects = ThroughRun.as_manager()

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq", "kind", "name"], name="artifact_once")]

    def __str__(self) -> str:
        return self.name
