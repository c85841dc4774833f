import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("loops", "0047_setups_that_are_lost"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("workspace", "criteria", models.JSONField(default=list, editable=False)),
        migrations.AddField("workspace", "protected", models.JSONField(default=list, editable=False)),
        migrations.AddField("workspace", "toml_text", models.TextField(blank=True, editable=False)),
        migrations.AddField("workspace", "toml_at", models.DateTimeField(blank=True, editable=False, null=True)),
        migrations.AddField(
            "workspace", "toml_declined", models.CharField(blank=True, editable=False, max_length=64)
        ),
        migrations.AddField(
            "workspace",
            "toml_by",
            models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
