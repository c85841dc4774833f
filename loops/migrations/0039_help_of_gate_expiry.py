import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('loops', '0038_deliveries_are_finished'),
    ]

    operations = [
        migrations.AlterField(
            model_name='policy',
            name='gate_expiry_minutes',
            field=models.PositiveIntegerField(default=10080, help_text='A gate that nobody decides within this time expires. Open gates keep the deadline they have.', validators=[django.core.validators.MinValueValidator(1)]),
        ),
    ]
