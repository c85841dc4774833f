"""Bodies of old runs may be pruned: by the owner of the database only, who says so, and never without a tombstone."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

GUARDS = """
CREATE TRIGGER loops_tombstone_rows BEFORE UPDATE OR DELETE ON loops_tombstone
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER loops_tombstone_whole BEFORE TRUNCATE ON loops_tombstone EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE loops_tombstone ENABLE ALWAYS TRIGGER loops_tombstone_rows;
ALTER TABLE loops_tombstone ENABLE ALWAYS TRIGGER loops_tombstone_whole;

-- A transaction of the owner may name the run it prunes. Its tombstone must be there: no body goes unexplained.
CREATE OR REPLACE FUNCTION refuse_rewriting_unless_pruning() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE pruned text := nullif(current_setting('agentops.pruning', true), '');
BEGIN
    IF TG_OP = 'DELETE' AND pruned IS NOT NULL
       AND current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID)
       AND EXISTS (SELECT 1 FROM loops_tombstone WHERE run_id = pruned::uuid AND at = now()) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'AO003';
END $$;
DROP TRIGGER loops_blob_rows ON loops_blob;
CREATE TRIGGER loops_blob_rows BEFORE UPDATE OR DELETE ON loops_blob
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting_unless_pruning();
ALTER TABLE loops_blob ENABLE ALWAYS TRIGGER loops_blob_rows;
"""


class Migration(migrations.Migration):
    dependencies = [("loops", "0006_mailbox_rollback")]

    operations = [
        migrations.AddField(
            model_name="project",
            name="keep_days",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="After so many days an ended run loses its folder and its long texts; facts, results, provenance and audit stay. Empty: everything is kept for ever.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="days to keep",
            ),
        ),
        migrations.CreateModel(
            name="Tombstone",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="tombstone",
                        serialize=False,
                        to="loops.run",
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("head_seq", models.BigIntegerField(help_text="Number of facts at that time.")),
                ("head_hash", models.BinaryField(help_text="Hash of the last of them.")),
                ("blobs", models.IntegerField(help_text="Bodies deleted with it.")),
                ("blob_bytes", models.BigIntegerField()),
                ("folder_bytes", models.BigIntegerField(default=0)),
                ("reason", models.CharField(max_length=300)),
            ],
            options={"ordering": ["-at"]},
        ),
        migrations.RunSQL(GUARDS, migrations.RunSQL.noop),
    ]
