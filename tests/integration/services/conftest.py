import pytest

from tests.integration.services import world as worlds


@pytest.fixture
def world(db):
    return worlds.make()


@pytest.fixture
def committed_world(transactional_db):
    return worlds.make()
