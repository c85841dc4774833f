"""The history of circuit breakers is never changed: the second wall behind the role's missing rights."""

from django.db import migrations

GUARDS = """
CREATE TRIGGER loops_breakerevent_rows BEFORE UPDATE OR DELETE ON loops_breakerevent
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER loops_breakerevent_whole BEFORE TRUNCATE ON loops_breakerevent EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE loops_breakerevent ENABLE ALWAYS TRIGGER loops_breakerevent_rows;
ALTER TABLE loops_breakerevent ENABLE ALWAYS TRIGGER loops_breakerevent_whole;
"""


class Migration(migrations.Migration):
    dependencies = [("loops", "0013_context_window")]

    operations = [migrations.RunSQL(GUARDS, migrations.RunSQL.noop)]
