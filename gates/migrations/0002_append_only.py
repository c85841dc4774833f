"""Decisions are never changed: the second wall behind the role's missing rights."""

from django.db import migrations

TRIGGERS = """
CREATE TRIGGER gates_decision_rows BEFORE UPDATE OR DELETE ON gates_decision
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER gates_decision_whole BEFORE TRUNCATE ON gates_decision EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE gates_decision ENABLE ALWAYS TRIGGER gates_decision_rows;
ALTER TABLE gates_decision ENABLE ALWAYS TRIGGER gates_decision_whole;
"""


class Migration(migrations.Migration):
    dependencies = [("gates", "0001_initial"), ("loops", "0003_journal_functions")]

    operations = [migrations.RunSQL(TRIGGERS, migrations.RunSQL.noop)]
