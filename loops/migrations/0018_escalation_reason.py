"""``journal_project`` fills ``escalation_reason``."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"


class Migration(migrations.Migration):
    dependencies = [("loops", "0017_classifier_model")]

    operations = [
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
        migrations.AlterField(
            "run",
            "escalation_reason",
            models.TextField(
                blank=True,
                default="",
                help_text="Why a person is asked, or was at the end, because it could not go on.",
            ),
        ),
        migrations.AlterField(
            "run",
            "final_status",
            models.CharField(
                max_length=50, blank=True, default="", help_text="success, failed, interrupted, escalated"
            ),
        ),
    ]
