from django.core.validators import MinValueValidator
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("loops", "0012_confidence")]

    operations = [
        migrations.AddField(
            "modelconfig",
            "context_window",
            models.PositiveIntegerField(
                null=True,
                blank=True,
                validators=[MinValueValidator(1000)],
                help_text="Tokens that it takes, question and answer together. Empty: what is known of the model, "
                "else 32,768. Conversations are shortened before they pass it.",
            ),
        ),
        migrations.AddField(
            "agent",
            "summariser_model",
            models.ForeignKey(
                "loops.modelconfig",
                on_delete=models.deletion.PROTECT,
                related_name="+",
                null=True,
                blank=True,
                help_text="Sums up what is left out of a conversation that grows too long. Empty: it is listed from "
                "the record, without a model.",
            ),
        ),
    ]
