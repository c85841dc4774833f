import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("loops", "0011_circuit_breakers"),
    ]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="confidence_every_steps",
            field=models.PositiveIntegerField(
                default=5,
                help_text="How often the confidence of a run is judged, and at the agent's own doubt in between; 0 for never.",
                validators=[django.core.validators.MaxValueValidator(1000)],
            ),
        ),
        migrations.AddField(
            model_name="policy",
            name="confidence_threshold",
            field=models.FloatField(
                default=0.5,
                help_text="Below this a person is asked whether the run goes on.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(1),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="mailboxitem",
            name="kind",
            field=models.CharField(
                choices=[
                    ("stop", "Stop"),
                    ("pause", "Pause"),
                    ("resume", "Resume"),
                    ("message", "Message"),
                    ("decision", "Decision of a gate"),
                    ("rollback", "Rollback"),
                    ("check_confidence", "Check of the confidence"),
                    ("detected", "Finding of the monitor"),
                ],
                max_length=20,
            ),
        ),
    ]
