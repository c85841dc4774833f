"""The first user of an installation."""

import secrets

from django.contrib.auth.models import User

from agentops.embedded.paths import Paths, write_once

ADMIN = "admin"


def ensure_admin(paths: Paths) -> str | None:
    """Create `admin` when nobody by that name exists; returns the new password, to be shown this one time."""
    if User.objects.filter(username=ADMIN).exists():
        return None
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(ADMIN, password=password)
    paths.admin_password.unlink(missing_ok=True)  # left by an earlier database
    write_once(paths.admin_password, password + "\n")
    return password


def admin() -> User:
    """The user `admin`."""
    return User.objects.get(username=ADMIN)
