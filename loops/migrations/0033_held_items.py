"""An item of the mailbox may be held back for a moment, in which whoever put it there can think again."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"


class Migration(migrations.Migration):
    dependencies = [("loops", "0032_one_set_of_bounds")]

    operations = [
        migrations.AddField(
            "mailboxitem",
            "not_before",
            models.DateTimeField(null=True, help_text="Until then the run does not hear of it; none: at once."),
        ),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
    ]
