"""Bodies that are to be pruned are marked a while before they go."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("loops", "0007_retention")]

    operations = [
        migrations.CreateModel(
            name="CondemnedBlob",
            fields=[
                ("sha256", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
    ]
