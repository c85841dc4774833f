"""Who paused a run, why and since when; read off the facts for those that are paused today."""

import json
from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"


def fill(apps, schema_editor):
    run_model, fact_model = apps.get_model("loops", "Run"), apps.get_model("loops", "Fact")
    for run in run_model.objects.filter(status="paused"):
        fact = fact_model.objects.filter(run_id=run.pk, kind="RunPaused").order_by("-seq").first()
        if fact is not None:
            body = json.loads(bytes(fact.body))
            run_model.objects.filter(pk=run.pk).update(
                paused_by=str(body.get("by", ""))[:150], paused_reason=str(body.get("reason", ""))[:1000], paused_at=fact.at
            )


class Migration(migrations.Migration):
    dependencies = [("loops", "0021_models_turns_and_windows")]

    operations = [
        migrations.AddField(
            "run", "paused_by", models.CharField(blank=True, default="", help_text='A person, or "monitor".', max_length=150)
        ),
        migrations.AddField(
            "run",
            "paused_reason",
            models.CharField(blank=True, default="", help_text="Why, where the monitor did it.", max_length=1000),
        ),
        migrations.AddField("run", "paused_at", models.DateTimeField(blank=True, null=True)),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
