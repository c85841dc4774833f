"""The app in which agents work."""

from django.apps import AppConfig


class LoopsConfig(AppConfig):
    """What agents do: engine, driver, tools, storage and their pages."""

    name = "loops"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Watch what ends the tokens of a person, and what is saved."""
        from loops.services.secrets import watch_rows
        from loops.services.tokens import watch_passwords

        watch_passwords()
        watch_rows()
