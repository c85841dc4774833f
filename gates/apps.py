"""The app in which people decide."""

from django.apps import AppConfig


class GatesConfig(AppConfig):
    """When people decide: policies, gates, reviews and notifications."""

    name = "gates"
    default_auto_field = "django.db.models.BigAutoField"
