"""Fixtures of the gates tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.gates.builders import World, make_world


@pytest.fixture
def world(db: Any) -> World:
    return make_world()
