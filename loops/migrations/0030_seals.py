"""Seals of what only grows (ADR 0046), and small indexes by date that the clock finds new rows by."""

import django.contrib.postgres.indexes
from django.conf import settings
from django.db import migrations, models


GUARDS = """
CREATE TRIGGER loops_seal_rows BEFORE UPDATE OR DELETE ON loops_seal FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER loops_seal_whole BEFORE TRUNCATE ON loops_seal EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE loops_seal ENABLE ALWAYS TRIGGER loops_seal_rows;
ALTER TABLE loops_seal ENABLE ALWAYS TRIGGER loops_seal_whole;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('loops', '0029_policy_is_a_floor'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Seal',
            fields=[
                ('pk', models.CompositePrimaryKey('table', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('table', models.CharField(max_length=63)),
                ('number', models.BigIntegerField()),
                ('key', models.CharField(help_text='Primary key of the row; `run:seq` for the head of a journal.', max_length=120)),
                ('digest', models.BinaryField(help_text='SHA-256 of the row; of a journal, the hash of its last fact.')),
                ('at', models.DateTimeField(help_text='When it was sealed.')),
                ('hash', models.BinaryField(help_text='SHA-256 of the hash before and of this seal.')),
            ],
            options={
                'ordering': ['table', 'number'],
            },
        ),
        migrations.AddIndex(
            model_name="fact",
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=["at"], name="fact_at"),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['at'], name='audit_at'),
        ),
        migrations.AddIndex(
            model_name='breakerevent',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['at'], name='breaker_event_at'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['created_at'], name='checkpoint_made'),
        ),
        migrations.AddIndex(
            model_name='fork',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['created_at'], name='fork_made'),
        ),
        migrations.AddIndex(
            model_name='policyversion',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['created_at'], name='policy_version_made'),
        ),
        migrations.AddIndex(
            model_name='provenancerecord',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['created_at'], name='provenance_made'),
        ),
        migrations.AddIndex(
            model_name='tombstone',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['at'], name='tombstone_at'),
        ),
        migrations.AddConstraint(
            model_name='seal',
            constraint=models.UniqueConstraint(fields=('table', 'key'), name='seal_once'),
        ),
        migrations.RunSQL(GUARDS, migrations.RunSQL.noop),
    ]
