"""The first user of an installation."""

import secrets

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser

from agentops.embedded.paths import Paths, write_once

ADMIN = "admin"


def ensure_admin(paths: Paths) -> str | None:
    """Create `admin` when nobody by that name exists; returns the new password, to be shown this one time."""
    users = get_user_model()._default_manager
    if users.filter(username=ADMIN).exists():
        return None
    password = secrets.token_urlsafe(12)
    users.create_superuser(ADMIN, password=password)  # type: ignore[attr-defined]
    paths.admin_password.unlink(missing_ok=True)  # left by an earlier database
    write_once(paths.admin_password, password + "\n")
    return password


def admin() -> AbstractBaseUser:
    """The user `admin`."""
    return get_user_model()._default_manager.get(username=ADMIN)
