"""The app in which agents work."""

from django.apps import AppConfig


class LoopsConfig(AppConfig):
    """What agents do: engine, driver, tools, storage and their pages."""

    name = "loops"
    default_auto_field = "django.db.models.BigAutoField"
