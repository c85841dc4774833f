from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('gates', '0009_no_price'),
    ]

    operations = [
        migrations.AlterField(
            model_name='gate',
            name='kind',
            field=models.CharField(choices=[('tool_approval', 'Tool approval'), ('irreversible_action', 'Irreversible action'), ('question', 'Question'), ('final_review', 'Final review'), ('limit_reached', 'Limit reached'), ('no_price', 'No price known'), ('loop_detected', 'Loop detected'), ('in_doubt', 'Outcome in doubt'), ('rollback_choice', 'Roll back or keep'), ('low_confidence', 'Low confidence'), ('permission_blocked', 'Blocked by policy'), ('escalation', 'Escalation'), ('checks_not_run', 'Checks could not run'), ('long_task', 'Long task')], max_length=30),
        ),
    ]
