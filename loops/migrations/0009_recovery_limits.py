import django.core.validators
from django.db import migrations, models

POSITIVE = django.core.validators.MinValueValidator(1)
HUNDRED = django.core.validators.MaxValueValidator(100)


class Migration(migrations.Migration):

    dependencies = [
        ('loops', '0008_condemned_blobs'),
    ]

    operations = [
        migrations.AddField(
            model_name='complexityprofile',
            name='max_attempts',
            field=models.PositiveIntegerField(default=3, help_text='Failed steps in a row before the agent has to give up an approach.', validators=[POSITIVE, HUNDRED]),
        ),
        migrations.AddField(
            model_name='complexityprofile',
            name='reflect_after',
            field=models.PositiveIntegerField(default=3, help_text='Tool errors in a row before the agent has to reflect; 0: never.', validators=[HUNDRED]),
        ),
        migrations.AddField(
            model_name='complexityprofile',
            name='max_backtracks',
            field=models.PositiveIntegerField(default=5, help_text='Approaches given up before the run ends.', validators=[POSITIVE, HUNDRED]),
        ),
        migrations.AddField(
            model_name='complexityprofile',
            name='confirm_after',
            field=models.PositiveIntegerField(default=20, help_text='Steps without a person before one is asked whether to go on; 0: never.', validators=[django.core.validators.MaxValueValidator(10000)]),
        ),
    ]
