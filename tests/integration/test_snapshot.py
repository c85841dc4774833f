"""Between two tests the rows go although somebody still writes, such as a worker that ends."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection

from tests.stack import Snapshot

pytestmark = pytest.mark.django_db(transaction=True)


class Impatient(Snapshot):
    """Waits a tenth of a second for each lock; whoever holds it lets go after so many refusals."""

    def __init__(self, holder: psycopg.Connection[tuple[object, ...]], refusals: int) -> None:
        super().__init__(connection.settings_dict["NAME"])
        self._connection.execute("SET lock_timeout = '100ms'")
        self._holder, self._left = holder, refusals

    def _restore(self) -> None:
        try:
            super()._restore()
        except psycopg.errors.LockNotAvailable:
            self._left -= 1
            if not self._left:
                self._holder.rollback()
            raise


@pytest.fixture
def writer(transactional_db: None) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    login = settings.DATABASE_OWNER
    with psycopg.connect(
        host=login["HOST"], user=login["USER"], password=login["PASSWORD"], dbname=connection.settings_dict["NAME"]
    ) as writer:
        yield writer
        writer.rollback()


def rows_after(writer: psycopg.Connection[tuple[object, ...]], refusals: int) -> int:
    snapshot = Impatient(writer, refusals)
    try:
        get_user_model().objects.create_user("ana")
        writer.execute("LOCK TABLE auth_user IN ROW EXCLUSIVE MODE")
        snapshot.restore()
    finally:
        snapshot.close()
    return int(get_user_model().objects.count())


def test_whoever_writes_for_long_is_waited_for(writer: psycopg.Connection[tuple[object, ...]]) -> None:
    assert rows_after(writer, refusals=4) == 0


def test_whoever_reads_is_not_waited_for(writer: psycopg.Connection[tuple[object, ...]]) -> None:
    writer.execute("LOCK TABLE auth_user IN ACCESS SHARE MODE")
    snapshot = Impatient(writer, refusals=1)
    get_user_model().objects.create_user("ana")
    snapshot.restore()
    snapshot.close()
    assert get_user_model().objects.count() == 0
    assert snapshot._left == 1


def test_whoever_writes_for_ever_is_not(writer: psycopg.Connection[tuple[object, ...]]) -> None:
    with pytest.raises(psycopg.errors.LockNotAvailable):
        rows_after(writer, refusals=6)
