from django.core.validators import MinValueValidator
from django.db import migrations, models


def price(of, help_text):
    return models.DecimalField(
        f"price of {of}",
        max_digits=10,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=f"US dollars for a million tokens. {help_text}",
    )


READ = price("cache reads", "Input that the provider had kept. Empty: the price of input.")
WRITE = price("cache writes", "Input that it keeps for later. Empty: the price of input.")
INPUT = price("input", "Empty, and output too: the public price list decides.")
OUTPUT = price("output", "Thinking is output.")


class Migration(migrations.Migration):
    dependencies = [("loops", "0014_breaker_guards")]

    operations = [
        migrations.AddField("modelconfig", "cache_read_usd_per_mtok", READ),
        migrations.AddField("modelconfig", "cache_write_usd_per_mtok", WRITE),
        migrations.AlterField("modelconfig", "input_usd_per_mtok", INPUT),
        migrations.AlterField("modelconfig", "output_usd_per_mtok", OUTPUT),
    ]
