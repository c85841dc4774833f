"""Kinds of audit rows have words; no row changes."""

from django.db import migrations, models

import loops.models.audit_kinds


class Migration(migrations.Migration):
    dependencies = [("loops", "0033_held_items")]

    operations = [
        migrations.AlterField(
            "auditevent", "kind", models.CharField(choices=loops.models.audit_kinds.kinds, max_length=60)
        ),
    ]
