"""API tokens are kept as hashes and expire. Those that exist work on for 90 days, hashed."""

import hashlib
import uuid
from datetime import timedelta

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

import loops.ids

DAYS = 90


def hash_those_in_plain(apps, schema_editor):
    Plain, Hashed = apps.get_model("authtoken", "Token"), apps.get_model("loops", "ApiToken")
    over = timezone.now() + timedelta(days=DAYS)
    for token in Plain.objects.all():
        Hashed.objects.create(
            id=uuid.uuid4(),
            user_id=token.user_id,
            name="made before tokens expired",
            digest=hashlib.sha256(token.key.encode()).hexdigest(),
            expires_at=over,
        )
    Plain.objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("loops", "0026_model_addresses"),
        ("authtoken", "0004_alter_tokenproxy_options"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.UUIDField(default=loops.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("ended_by", models.CharField(blank=True, max_length=40)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"ordering": ["-created_at", "id"]},
        ),
        migrations.RunPython(hash_those_in_plain, migrations.RunPython.noop),
    ]
