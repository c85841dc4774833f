"""Who allowed a folder outside the roots. What a superuser made before there were roots stays allowed (ADR 0036)."""

import json
import os

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

ADDED, CHANGED = 1, 2
DECISIVE = {"Path", "Copy for each run", "Project"}


def allow_what_superusers_made(apps, schema_editor):
    """Where the log of Admin says that only superusers set the folder and its use. The others are listed by doctor."""
    workspace_type = apps.get_model("contenttypes", "ContentType").objects.filter(app_label="loops", model="workspace")
    logged = apps.get_model("admin", "LogEntry").objects.filter(content_type__in=workspace_type)
    decisive = {}
    for entry in logged.filter(action_flag__in=(ADDED, CHANGED)).select_related("user").order_by("action_time"):
        if entry.action_flag == ADDED or _decides(entry.change_message):
            decisive.setdefault(entry.object_id, []).append(entry)
    event = apps.get_model("loops", "AuditEvent")
    for row in apps.get_model("loops", "Workspace").objects.exclude(path="").select_related("project"):
        entries = decisive.get(str(row.pk), [])
        made_by_superusers = all(entry.user.is_superuser and entry.user.is_active for entry in entries)
        if not entries or entries[0].action_flag != ADDED or not made_by_superusers or not row.path.startswith("/"):
            continue
        row.allowed_path, row.allowed_in_place = f"/{os.path.normpath(row.path).strip('/')}", not row.copy_for_each_run
        row.allowed_by, row.allowed_at = entries[-1].user, timezone.now()
        row.save()
        detail = {"workspace": row.name, "path": row.allowed_path, "in_place": row.allowed_in_place, "by": "upgrade"}
        event.objects.create(kind="workspace.allowed", actor=row.allowed_by, project=row.project, detail=detail)


def _decides(message):
    """What cannot be read may have been anything."""
    try:
        changed = [part.get("changed", {}) for part in json.loads(message)]
    except (ValueError, AttributeError):
        return True
    return any(not part or DECISIVE & set(part.get("fields", DECISIVE)) for part in changed)


class Migration(migrations.Migration):
    dependencies = [
        ("loops", "0027_api_tokens"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="allowed_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="workspace",
            name="allowed_by",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="allowed_in_place",
            field=models.BooleanField(default=False, editable=False),
        ),
        migrations.AddField(
            model_name="workspace",
            name="allowed_path",
            field=models.CharField(blank=True, editable=False, max_length=500),
        ),
        migrations.RunPython(allow_what_superusers_made, migrations.RunPython.noop),
    ]
