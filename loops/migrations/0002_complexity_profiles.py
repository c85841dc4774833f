"""The limits that the sources name for each complexity (SPEC D2)."""

from decimal import Decimal

from django.db import migrations

PROFILES = {
    "simple": {
        "max_steps": 20,
        "max_seconds": 600,
        "max_failures": 3,
        "max_tokens": 500_000,
        "max_cost_usd": Decimal(5),
    },
    "moderate": {
        "max_steps": 25,
        "max_seconds": 900,
        "max_failures": 5,
        "max_tokens": 1_000_000,
        "max_cost_usd": Decimal(10),
    },
    "complex": {
        "max_steps": 100,
        "max_seconds": 1800,
        "max_failures": 5,
        "max_tokens": 4_000_000,
        "max_cost_usd": Decimal(40),
    },
}


def add_profiles(apps, schema_editor):
    profiles = apps.get_model("loops", "ComplexityProfile").objects
    for name, limits in PROFILES.items():
        profiles.get_or_create(name=name, defaults=limits)


class Migration(migrations.Migration):
    dependencies = [("loops", "0001_initial")]

    operations = [migrations.RunPython(add_profiles, migrations.RunPython.noop)]
