"""``journal_append`` takes its facts as lists instead of one JSON document."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"
DROP = "DROP FUNCTION IF EXISTS journal_append(uuid, bigint, bigint, bytea, jsonb)"


class Migration(migrations.Migration):
    dependencies = [("loops", "0004_forks")]

    operations = [migrations.RunSQL([DROP, SQL.read_text()], migrations.RunSQL.noop)]
