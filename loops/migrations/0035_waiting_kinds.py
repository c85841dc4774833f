"""What a run waits for gets a kind and a name: nothing goes by the words that people read any more."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"
FILL = """
    UPDATE agent_execution_history r SET waiting_kind = w.kind, waiting_name = w.name
    FROM agent_execution_history o, journal_waiting(o.status, o.waiting_on) w
    WHERE o.id = r.id AND r.waiting_on <> '' AND w.kind <> ''
"""


class Migration(migrations.Migration):
    dependencies = [("loops", "0034_audit_kinds")]

    operations = [
        migrations.AddField(
            "run",
            "waiting_kind",
            models.CharField(max_length=20, blank=True, default="", help_text="What it waits for, while it does."),
        ),
        migrations.AddField(
            "run",
            "waiting_name",
            models.CharField(
                max_length=200, blank=True, default="", help_text="Which: the kind of the gate, the model."
            ),
        ),
        migrations.AlterField(
            "run",
            "waiting_on",
            models.CharField(
                max_length=200, blank=True, default="", help_text="The same in words; of a run at work what it does."
            ),
        ),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
