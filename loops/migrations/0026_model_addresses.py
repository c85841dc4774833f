"""Who let a key be sent where. What superusers had set up is allowed; what others had is named by `doctor`, and waits."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import loops.ids
from loops.llm.endpoints.keys import belongs, pair_of


def carry_over(apps: Any, schema_editor: Any) -> None:
    """Judge by the log of the admin pages, the only ones where models could be changed."""
    kind = apps.get_model("contenttypes", "ContentType").objects.filter(app_label="loops", model="modelconfig").first()
    entries = apps.get_model("admin", "LogEntry").objects.select_related("user").order_by("action_time")
    for row in apps.get_model("loops", "ModelConfig").objects.filter(provider__in=["anthropic", "openai"]):
        people = [entry.user for entry in entries.filter(content_type=kind, object_id=str(row.pk))] if kind else []
        if not row.base_url and not people:
            continue
        if any(not person.is_superuser for person in people):
            row.vetted = not row.base_url
            row.save(update_fields=["vetted"])
        elif people:
            _allow(apps, row, people[-1])


def _allow(apps: Any, row: Any, person: Any) -> None:
    try:
        pair = pair_of(row.provider, row.api_key_env, row.base_url)
    except ValueError:
        return
    if belongs(pair, {}):
        return
    given = {"inward": bool(row.base_url), "allowed_by": person}
    apps.get_model("loops", "ModelAddress").objects.get_or_create(
        key_name=pair.key, origin=pair.origin, defaults=given
    )


class Migration(migrations.Migration):
    dependencies = [
        ("loops", "0024_time_at_work"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            "modelconfig",
            "vetted",
            models.BooleanField(
                default=True,
                editable=False,
                help_text="False: its address was given by somebody who is no superuser, before only superusers could.",
            ),
        ),
        migrations.CreateModel(
            "ModelAddress",
            [
                (
                    "id",
                    models.UUIDField(default=loops.ids.new_id, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "key_name",
                    models.CharField(
                        blank=True, help_text="Name of the variable; empty: no key is sent.", max_length=100
                    ),
                ),
                ("origin", models.CharField(help_text="Scheme, host and port of the server.", max_length=500)),
                (
                    "inward",
                    models.BooleanField(
                        default=False, help_text="It may be an address of this machine or its networks."
                    ),
                ),
                ("allowed_at", models.DateTimeField(auto_now_add=True)),
                (
                    "allowed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "allowed address",
                "verbose_name_plural": "allowed addresses",
                "ordering": ["key_name", "origin"],
                "constraints": [
                    models.UniqueConstraint(fields=("key_name", "origin"), name="model_address_once")
                ],
            },
        ),
        migrations.RunPython(carry_over, migrations.RunPython.noop),
    ]
