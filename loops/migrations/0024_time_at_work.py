"""The time a run was at work in its row, and a status of its own for one that waits for a resource."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"
OF_ENDED = """
    UPDATE agent_execution_history SET active_us = (state_snapshot->>'active_us')::bigint
    WHERE jsonb_typeof(state_snapshot->'active_us') = 'number'
"""


class Migration(migrations.Migration):
    dependencies = [("loops", "0023_model_tests")]

    operations = [
        migrations.AddField(
            "run",
            "active_us",
            models.BigIntegerField(
                default=0,
                help_text="Microseconds at work until then: waiting for people, models and folders is not counted.",
            ),
        ),
        migrations.AlterField(
            "run",
            "status",
            models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("initializing", "Starting"),
                    ("thinking", "Thinking"),
                    ("executing_tool", "Using a tool"),
                    ("waiting", "Waiting for a person"),
                    ("waiting_for_resource", "Waiting for its folder, its turn or a model"),
                    ("paused", "Paused"),
                    ("completed", "Completed"),
                    ("failed", "Failed"),
                    ("interrupted", "Interrupted"),
                    ("escalated", "Escalated"),
                ],
                default="queued",
                max_length=20,
            ),
        ),
        migrations.RunSQL(OF_ENDED, migrations.RunSQL.noop),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
    ]
