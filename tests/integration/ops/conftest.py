"""Fixtures: a backup of what is there, and another database to restore it into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from agentops.embedded.paths import Paths

ELSEWHERE, NEWCOMER = "agentops_elsewhere", "agentops_newcomer"


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    """Nobody hears it."""
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


@pytest.fixture
def state(settings: Any, tmp_path: Path) -> Path:
    """A state folder of the test's own, with a secret and one run's folder in it."""
    paths = Paths(tmp_path / "state")
    paths.state.mkdir()
    (paths.state / "secret").write_text("the first secret")
    folder = paths.state / "workspaces" / "a-run"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("half done")
    (folder / "link").symlink_to("notes.txt")
    settings.PATHS = paths
    settings.EMBEDDED_POSTGRES = False  # the suite's server is not ours to start and stop
    return paths.state


@pytest.fixture
def elsewhere(transactional_db: None, settings: Any, state: Path, tmp_path: Path) -> Iterator[Any]:
    """``elsewhere()`` moves the test to a fresh database and an empty state folder."""
    default = connections["default"]
    before = default.settings_dict
    login = settings.DATABASE_OWNER
    owner = psycopg.connect(
        host=login["HOST"], user=login["USER"], password=login["PASSWORD"], dbname="postgres", autocommit=True
    )
    with owner:
        owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(ELSEWHERE)))

        def move(**login: str) -> Path:
            default.close()
            default.settings_dict = {**before, "NAME": ELSEWHERE, **login}
            settings.PATHS = Paths(tmp_path / "restored")
            settings.PATHS.state.mkdir()
            (settings.PATHS.state / "secret").write_text("another secret")
            return settings.PATHS.state

        yield move
        default.close()
        default.settings_dict = before
        owner.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(ELSEWHERE)))
        owner.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(NEWCOMER)))
    owner.close()
