"""The two database roles: what the application may do, and what the database refuses it."""

import pytest
from django.db import DatabaseError, connection, transaction

from agentops import roles

pytestmark = pytest.mark.spec("N1")


@pytest.fixture
def execute(db: None):
    """Run one statement as the application, in a transaction of its own."""

    def execute(statement: str) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

    return execute


def test_the_application_is_no_superuser(db: None) -> None:
    promises = roles.database_promises()
    assert promises["role"] == roles.app_role()
    assert not promises["role_is_superuser"]
    assert promises["is_primary"]


def test_every_append_only_table_is_protected(db: None) -> None:
    promises = roles.database_promises()
    assert promises["append_only_tables"]
    assert promises["append_only_protected"], promises["append_only_tables"]


@pytest.mark.parametrize("rewriting", ["UPDATE {0} SET {1} = {1}", "DELETE FROM {0}", "TRUNCATE {0}"])
@pytest.mark.parametrize("model", roles.append_only_models(), ids=lambda model: model.__name__)
def test_the_database_refuses_to_rewrite_history(execute, model, rewriting: str) -> None:
    quote = connection.ops.quote_name
    column = next(field.column for field in model._meta.concrete_fields if field.column)
    with pytest.raises(DatabaseError, match="permission denied"):
        execute(rewriting.format(quote(model._meta.db_table), quote(column)))


@pytest.mark.parametrize(
    "escape",
    [
        "CREATE TABLE mine (id int)",
        "DROP TABLE auth_user CASCADE",
        "ALTER TABLE auth_user DISABLE TRIGGER ALL",
        "SET session_replication_role = replica",
        "DELETE FROM django_migrations",
        "CREATE ROLE other LOGIN",
    ],
)
def test_the_application_cannot_change_the_schema_or_its_own_rights(execute, escape: str) -> None:
    with pytest.raises(DatabaseError, match=r"permission denied|must be owner"):
        execute(escape)


def test_durability_switches_are_reported(db: None) -> None:
    assert "fsync is off" in roles.broken_durability()  # the suite's own Postgres does not wait for the disk


@pytest.mark.django_db(transaction=True)
class TestRowsOfMigrations:
    """Committing tests run twice here: the second finds what migrations made, and nothing of the first."""

    @pytest.mark.parametrize("round_", [1, 2])
    def test_are_there_after_a_test_that_committed(self, round_: int) -> None:
        from django.contrib.auth.models import Permission, User

        assert Permission.objects.exists()
        assert not User.objects.exists()
        User.objects.create(username="left-over")
        Permission.objects.all().delete()
