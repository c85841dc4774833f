"""The product's web application, with guards off where a negative control asks for it."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.settings")

from agentops.asgi import application
from tests.faults import guards

guards.off_by_environment()
__all__ = ["application"]
