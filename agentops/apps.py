"""The project itself as an app: commands, health, one-time log-in."""

from django.apps import AppConfig


class AgentOpsConfig(AppConfig):
    """Holds no models; it carries management commands and start-up hooks."""

    name = "agentops"

    def ready(self) -> None:
        """Hear of log-ins."""
        from agentops import attempts  # noqa: F401 - its receivers
