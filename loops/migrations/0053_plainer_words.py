import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('loops', '0052_words_of_final_status'),
    ]

    operations = [
        migrations.AlterField(
            model_name='agent',
            name='agent_type',
            field=models.SlugField(default='general', help_text='The access rules of this type apply to the agent.'),
        ),
        migrations.AlterField(
            model_name='detection',
            name='kind',
            field=models.CharField(choices=[('loop', 'Looping'), ('stall', 'Stalled'), ('spend', 'Spends too fast')], max_length=10),
        ),
        migrations.AlterField(
            model_name='project',
            name='keep_days',
            field=models.PositiveIntegerField(blank=True, help_text='After this many days an ended run loses its copy of the workspace and its long texts; facts, results, provenance and audit stay. Empty: everything is kept for ever.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='days to keep'),
        ),
        migrations.AlterField(
            model_name='run',
            name='final_status',
            field=models.CharField(blank=True, default='', help_text='success, finished (not proven), contradicted, failed, interrupted, escalated', max_length=50),
        ),
        migrations.AlterField(
            model_name='run',
            name='status',
            field=models.CharField(choices=[('queued', 'Queued'), ('initializing', 'Starting'), ('thinking', 'Thinking'), ('executing_tool', 'Using a tool'), ('waiting', 'Waiting for a person'), ('waiting_for_resource', 'Waiting for its workspace, its turn or a model'), ('paused', 'Paused'), ('completed', 'Completed'), ('failed', 'Failed'), ('interrupted', 'Stopped'), ('escalated', 'Escalated')], default='queued', max_length=20),
        ),
    ]
