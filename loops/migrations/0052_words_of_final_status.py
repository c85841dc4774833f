from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('loops', '0051_words_of_final_review'),
    ]

    operations = [
        migrations.AlterField(
            model_name='run',
            name='final_status',
            field=models.CharField(blank=True, default='', help_text='success, finished (only claimed), contradicted, failed, interrupted, escalated', max_length=50),
        ),
    ]
