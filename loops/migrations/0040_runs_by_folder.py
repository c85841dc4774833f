from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('loops', '0039_help_of_gate_expiry'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['workspace_path'], name='run_in_folder'),
        ),
    ]
