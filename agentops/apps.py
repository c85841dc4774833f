"""The project itself as an app: commands, health, one-time log-in."""

import gc

from django.apps import AppConfig


class AgentOpsConfig(AppConfig):
    """Holds no models; it carries management commands and start-up hooks."""

    name = "agentops"

    def ready(self) -> None:
        """Hear of log-ins; look for garbage again, but not in what stays as long as the process."""
        from agentops.login import attempts  # noqa: F401 - its receivers

        gc.freeze()
        gc.enable()
