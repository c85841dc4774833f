"""The journal's SQL functions, and triggers that refuse to rewrite what is append-only."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "storage" / "sql" / "journal.sql"
TABLES = (
    "loops_fact",
    "loops_blob",
    "loops_checkpoint",
    "loops_provenancerecord",
    "loops_auditevent",
    "loops_policyversion",
)


def protect(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_rows BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();"
        f"CREATE TRIGGER {table}_whole BEFORE TRUNCATE ON {table} EXECUTE FUNCTION refuse_rewriting();"
        f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_rows;"
        f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_whole;"
    )


class Migration(migrations.Migration):
    dependencies = [("loops", "0002_complexity_profiles")]

    operations = [
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
        *(migrations.RunSQL(protect(table), migrations.RunSQL.noop) for table in TABLES),
    ]
