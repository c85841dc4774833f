"""The first admin of an installation, so that a fresh one has a way in. There is no default password.

AGENTOPS_INIT_USERNAME, AGENTOPS_INIT_EMAIL and AGENTOPS_INIT_PASSWORD are read here, once, and the password is taken
out of the environment: no process that is started later inherits it, and nothing prints it.
"""

import os
import secrets

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from agentops.embedded import EmbeddedError
from agentops.embedded.paths import Paths, write_once
from agentops.login import links

ADMIN = "admin"
PASSWORD = "AGENTOPS_INIT_PASSWORD"  # noqa: S105 - the name of a variable


def first_admin() -> User | None:
    """Who is meant where no name is given: the user `admin`, else the first superuser; None when nobody can log in."""
    able = User.objects.filter(is_superuser=True, is_active=True)
    return able.filter(username=ADMIN).first() or able.order_by("pk").first()


def way_in(user: User) -> str:
    """Address that logs the user in, once, within the hour."""
    return settings.BASE_URL.rstrip("/") + links.issue(user)


def make_first_admin() -> User | None:
    """Make an admin where there is none; None when there is one. Without AGENTOPS_INIT_PASSWORD nobody knows a password
    for it: the way in is a link. Raises EmbeddedError when a name or password cannot be taken."""
    password = os.environ.pop(PASSWORD, "")
    if User.objects.filter(is_superuser=True).exists():
        return None
    user = User(
        username=os.environ.get("AGENTOPS_INIT_USERNAME") or ADMIN,
        email=os.environ.get("AGENTOPS_INIT_EMAIL", ""),
        is_staff=True,
        is_superuser=True,
    )
    _check(user, password)
    user.set_password(password or None)  # None: a password that nothing equals
    return user if _save_new(user) else None


def ensure_admin(paths: Paths) -> str | None:
    """For an installation of one machine: make the first admin; returns a password made for it, kept in a file too."""
    user = make_first_admin()
    if user is None or user.has_usable_password():
        return None
    password = secrets.token_urlsafe(12)
    user.set_password(password)
    user.save(update_fields=["password"])
    paths.admin_password.unlink(missing_ok=True)  # left by an earlier database
    write_once(paths.admin_password, password + "\n")
    return password


def _check(user: User, password: str) -> None:
    try:
        user.full_clean(exclude=["password"])
        if password:
            validate_password(password, user)
    except ValidationError as error:
        raise EmbeddedError(
            f"the first admin cannot be made from AGENTOPS_INIT_*: {' '.join(error.messages)}"
        ) from None


def _save_new(user: User) -> bool:
    """False when another process was faster."""
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        return False
    return True
