"""An installation as the version before the walls made it: its schema, and rows of everything that an upgrade meets."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from gates.policy import digests

BEFORE = [("loops", "0024_time_at_work"), ("gates", "0005_escalation_and_long_task")]
TOKEN = "9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b"
BINDING = {"version": 1, "call": "3/call", "policy_version": "v1", "attempt": 1, "tool": "run_command"}
BOSS_ADDED = ("boss", 1, '[{"added": {}}]')
ADA_ADDED = ("ada", 1, '[{"added": {}}]')
ADA_CHANGED = ("ada", 2, '[{"changed": {"fields": ["Path"]}}]')
WORKSPACES = {
    "by boss": [BOSS_ADDED],
    "by ada": [ADA_ADDED],
    "by nobody known": [],
    "moved by ada": [BOSS_ADDED, ADA_CHANGED],
    "in place by ada": [BOSS_ADDED, ("ada", 2, '[{"changed": {"fields": ["Copy for each run"]}}]')],
    "unreadable": [BOSS_ADDED, ("ada", 2, "Changed something.")],
    "renamed by ada": [BOSS_ADDED, ("ada", 2, '[{"changed": {"fields": ["Name"]}}]')],
}
"""Name -> what the log of Admin says of it: who, 1 added or 2 changed, what."""


def schema() -> Any:
    """Migrate an empty database to where that version was. Call as the owner; gives the models of then."""
    executor = MigrationExecutor(connection)
    others = [leaf for leaf in executor.loader.graph.leaf_nodes() if leaf[0] not in ("loops", "gates")]
    executor.migrate([*BEFORE, *others])
    return MigrationExecutor(connection).loader.project_state([*BEFORE, *others]).apps


class Rows:
    """Workspaces, models, a token, open gates and runs that ask for what is tighter now."""

    def __init__(self, apps: Any) -> None:
        self._apps = apps
        users = apps.get_model("auth", "User").objects
        names = {"boss": {"is_superuser": True}, "ada": {"is_staff": True}, "rae": {}, "olaf": {}}
        self.people = {
            name: users.create(username=name, password=make_password("x"), **more) for name, more in names.items()
        }
        self.project = self._make("Project", name="Harbour", slug="harbour")
        self._make("Policy", project=self.project, own_approval_allowed=False)
        for name, role in (("ada", "admin"), ("olaf", "operator"), ("rae", "reviewer")):
            self._make("Membership", project=self.project, user=self.people[name], role=role)
        self._workspaces()
        self._models()
        self._make("Token", "authtoken", key=TOKEN, user=self.people["rae"])
        self._runs()

    def _make(self, model: str, app: str = "loops", **fields: Any) -> Any:
        return self._apps.get_model(app, model).objects.create(**fields)

    def _logged(self, row: Any, model: str, *entries: tuple[str, int, str]) -> Any:
        kind, _ = self._apps.get_model("contenttypes", "ContentType").objects.get_or_create(
            app_label="loops", model=model
        )
        for who, flag, message in entries:
            self._make(
                "LogEntry", "admin", user=self.people[who], content_type_id=kind.pk, object_id=str(row.pk),
                object_repr=str(row.pk), action_flag=flag, change_message=message,
            )  # fmt: skip
        return row

    def _workspaces(self) -> None:
        for name, entries in WORKSPACES.items():
            row = self._make("Workspace", project=self.project, name=name, path="/srv/x/", copy_for_each_run=False)
            self._logged(row, "workspace", *entries)

    def _models(self) -> None:
        far = {"provider": "openai", "model_id": "m", "api_key_env": "TEAM_API_KEY", "base_url": "https://llm.acme.com"}
        own = {"provider": "anthropic", "model_id": "claude-sonnet-5-5", "api_key_env": "ANTHROPIC_API_KEY"}
        self.model = self._make("ModelConfig", name="own", **own)
        self._logged(self._make("ModelConfig", name="paired", **far), "modelconfig", BOSS_ADDED)
        moved = {**far, "base_url": "https://elsewhere.acme.com"}
        self._logged(self._make("ModelConfig", name="redirected", **moved), "modelconfig", BOSS_ADDED, ADA_CHANGED)

    def _runs(self) -> None:
        agent = self._make("Agent", project=self.project, name="Scribe", actor_model=self.model)
        rich = {"limits": {"max_steps": 5000, "max_cost_microusd": 900_000_000}, "output_schema": {"pattern": "(?=a)b"}}
        self.runs = [self._run(agent, **rich), self._run(agent)]
        shaped = self.runs[1]
        for name in ("ada", "rae"):
            text = {"text": "Push it to production instead"}
            self._make("MailboxItem", run=shaped, kind="message", payload=text, created_by=self.people[name])
        self.command = self._gate(self.runs[0], "tool_approval", {"argv": ["make", "deploy"]}, operation="execute")
        self.question = self._gate(shaped, "question", {"question": "Which folder?"})
        self.held = self._gate(shaped, "tool_approval", {"path": "a"}, operation="write")
        decided = self._gate(self.runs[0], "tool_approval", {"path": "b"}, status="rejected")
        self._make(
            "Decision", "gates", gate=decided, verdict="reject", reason="no", digest=decided.digest,
            decided_by=self.people["rae"],
        )  # fmt: skip

    def _run(self, agent: Any, **task: Any) -> Any:
        task = self._make(
            "Task", project=self.project, agent=agent, title="Ship it", goal="Ship", created_by=self.people["olaf"],
            content_sha256="0" * 64, **task,
        )  # fmt: skip
        return self._make("Run", project=self.project, agent=agent, task=task, max_steps=20, status="waiting")

    def _gate(self, run: Any, kind: str, arguments: dict[str, Any], status: str = "open", **view: Any) -> Any:
        opened = datetime.now(UTC) - timedelta(hours=2)
        until, nonce = opened + timedelta(days=7), uuid.uuid4().hex
        subject = digests.subject_bytes({**BINDING, "arguments": arguments})
        view = digests.shown({"tool": "run_command", "arguments": arguments, **view})
        shown = digests.view_hash(view)
        return self._make(
            "Gate", "gates", run=run, project=self.project, kind=kind, status=status, title="Ship it",
            call_id=nonce[:9], tool="run_command", risk="medium", subject=subject, view=view, view_hash=shown,
            nonce=nonce, opened_at=opened, expires_at=until,
            digest=digests.digest(subject=subject, view=shown, expires_at=until, nonce=nonce),
        )  # fmt: skip


def everything() -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, each as the database writes it in JSON."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        tables = [table for (table,) in cursor.fetchall()]
        found = {}
        for table in tables:
            cursor.execute(f'SELECT to_jsonb(row) FROM "{table}" row')
            found[table] = [json.loads(row) if isinstance(row, str) else row for (row,) in cursor.fetchall()]
    return found
