from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("loops", "0015_cache_prices")]

    operations = [
        migrations.AlterField(
            "modelconfig",
            "thinking",
            models.CharField(
                max_length=20,
                default="off",
                help_text='"adaptive", a token budget (older Claude models), or "off": as the model does by itself.',
            ),
        ),
    ]
