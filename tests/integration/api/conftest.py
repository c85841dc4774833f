import pytest

from tests.integration.services import world as worlds


@pytest.fixture
def world(db):
    return worlds.make()


@pytest.fixture
def committed_world(transactional_db):
    return worlds.make()


@pytest.fixture
def api():
    """A client for a person: ``api(user)``; without one a stranger."""
    from rest_framework.test import APIClient

    def client(user=None):
        made = APIClient()
        if user is not None:
            made.force_authenticate(user)
        return made

    return client
