"""An upgrade from before there were roots: what superusers made goes on, the rest is refused and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agentops import roles
from loops.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I7")]
BEFORE, AFTER = [("loops", "0027_api_tokens")], [("loops", "0028_where_workspaces_may_lie")]


def migrated(to: list[tuple[str, str]]) -> Any:
    with roles.as_owner():
        executor = MigrationExecutor(connection)
        return executor.migrate(to).apps


def test_what_superusers_made_stays_allowed_and_what_others_touched_does_not() -> None:
    users = get_user_model().objects
    boss, admin = users.create_superuser("boss"), users.create_user("ada", is_staff=True)
    old = migrated(BEFORE)
    try:
        made = old_rows(old, boss.pk, admin.pk)
    finally:
        migrated(AFTER)
    allowed = {row.name: row for row in Workspace.objects.filter(pk__in=made).exclude(allowed_by=None)}
    assert set(allowed) == {"by boss", "renamed by ada"}
    row = allowed["by boss"]
    assert (row.path, row.allowed_path, row.allowed_in_place, row.allowed_by) == ("/srv/x/", "/srv/x", True, boss)
    assert AuditEvent.objects.filter(kind="workspace.allowed", actor=boss, detail__by="upgrade").count() == 2
    assert Workspace.objects.filter(pk__in=made).count() == len(made), "nothing is lost"


def old_rows(apps: Any, boss: Any, admin: Any) -> list[Any]:
    project = apps.get_model("loops", "Project").objects.create(name="P", slug="p")
    entry, kind = apps.get_model("admin", "LogEntry"), apps.get_model("contenttypes", "ContentType")
    kind, _ = kind.objects.get_or_create(app_label="loops", model="workspace")
    history = {
        "by boss": [(boss, 1, '[{"added": {}}]')],
        "by ada": [(admin, 1, '[{"added": {}}]')],
        "by nobody known": [],
        "moved by ada": [(boss, 1, '[{"added": {}}]'), (admin, 2, '[{"changed": {"fields": ["Path"]}}]')],
        "in place by ada": [
            (boss, 1, '[{"added": {}}]'),
            (admin, 2, '[{"changed": {"fields": ["Copy for each run"]}}]'),
        ],
        "unreadable": [(boss, 1, '[{"added": {}}]'), (admin, 2, "Changed something.")],
        "renamed by ada": [(boss, 1, '[{"added": {}}]'), (admin, 2, '[{"changed": {"fields": ["Name"]}}]')],
    }
    made = []
    for name, entries in history.items():
        row = apps.get_model("loops", "Workspace").objects.create(
            project=project, name=name, path="/srv/x/", copy_for_each_run=False
        )
        made.append(row.pk)
        for user, flag, message in entries:
            entry.objects.create(
                user_id=user, content_type=kind, object_id=str(row.pk), object_repr=name, action_flag=flag,
                change_message=message,
            )  # fmt: skip
    return made
