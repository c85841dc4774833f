from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("loops", "0046_git_sources")]

    operations = [
        migrations.AlterField(
            model_name="setup",
            name="state",
            field=models.CharField(
                choices=[
                    ("waiting", "Waiting for a worker"),
                    ("running", "Running"),
                    ("ready", "Ready"),
                    ("failed", "Failed"),
                    ("stopped", "Stopped"),
                    ("lost", "Lost"),
                ],
                default="waiting",
                max_length=10,
            ),
        ),
    ]
