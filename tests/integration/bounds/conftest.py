"""A superuser's browser and an empty project."""

from __future__ import annotations

import pytest
from django.test import Client

from loops.models import Project
from tests import factories as make


@pytest.fixture
def root() -> Client:
    browser = Client()
    browser.force_login(make.superuser("root"))
    return browser


@pytest.fixture
def project() -> Project:
    return make.project()
