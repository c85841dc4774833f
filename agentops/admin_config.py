"""Django's admin, loaded by whoever has addresses or checks it: workers, the clock and most commands start without."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class LateAdmin(SimpleAdminConfig):
    """``agentops.urls`` looks for the pages; they cost a third of a second."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Any, **how: Any) -> list[checks.CheckMessage]:
    from django.contrib import admin

    admin.autodiscover()
    return list(check_admin_app(app_configs, **how))
