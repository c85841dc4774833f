"""API tokens: made and shown once, kept as a hash, ended by time, by hand or by a new password (SPEC S4).

django-rest-knox keeps the beginning of each token readable, deletes rows while it answers a GET, and knows no new
password; what would have been left of it is one hash and one lookup.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import pre_save
from django.utils import timezone

from loops.masking import LEAVE_OUT, known
from loops.models import ApiToken
from loops.services import audit
from loops.services.people import NotPossible

DAYS, MOST_DAYS = 90, 365
MOST = 50
"""Of one person that work at the same time: a script that made one for each of its runs would fill the table."""
LONGEST_NAME = 100
USED_EVERY = timedelta(hours=1)
"""How exactly the last use of a token is known: a read of the API is not to write each time."""
FROM_BEFORE = "made before tokens expired"
"""The name of tokens that an upgrade found, and hashed."""
PREFIX = "ao_"
"""So that a token in a log or a commit is known for what it is."""


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(*, actor: Any, user: Any, name: str = "", days: int = DAYS) -> tuple[str, ApiToken]:
    """Make a token for ``user``, shown once; one of the same name stops working, and makes room. Raises NotPossible."""
    name = name.strip() or "default"
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise NotPossible(f"A token's name has at most {LONGEST_NAME} characters that can be printed.")
    if known().is_in(name):
        raise NotPossible(LEAVE_OUT)
    if not 1 <= days <= MOST_DAYS:
        raise NotPossible(f"A token works for 1 to {MOST_DAYS} days.")
    token = PREFIX + secrets.token_urlsafe(30)
    with transaction.atomic():
        get_user_model().objects.select_for_update(no_key=True).only("pk").get(pk=user.pk)  # two at once are counted
        _end(ApiToken.objects.filter(user=user, name__in=[name, FROM_BEFORE]), by="a newer one")
        if ApiToken.objects.good().filter(user=user).count() >= MOST:
            raise NotPossible(f"A person has at most {MOST} tokens that work: end one, or give one of their names.")
        expires_at = timezone.now() + timedelta(days=days)
        row = ApiToken.objects.create(user=user, name=name, digest=digest_of(token), expires_at=expires_at)
        detail = {"user": user.get_username(), "name": name, "expires_at": expires_at.isoformat()}
        audit.record("token.created", actor=actor or user, detail=detail)
    return token, row


def tokens_of(user: Any) -> list[ApiToken]:
    """Those that still work, newest first."""
    return list(ApiToken.objects.good().filter(user=user))


def end_token(*, actor: Any, user: Any, token_id: uuid.UUID) -> bool:
    """End one token of ``user``; False for none that works."""
    with transaction.atomic():
        row = ApiToken.objects.good().filter(user=user, pk=token_id).first()
        if row is None:
            return False
        _end(ApiToken.objects.filter(pk=row.pk), by="hand")
        audit.record("token.ended", actor=actor or user, detail={"user": user.get_username(), "name": row.name})
    return True


def who_has(token: str) -> ApiToken | None:
    """The row of a token that lets somebody in, with its user."""
    row = ApiToken.objects.good().select_related("user").filter(digest=digest_of(token)).first()
    now = timezone.now()
    if row is not None and (row.last_used_at is None or now - row.last_used_at > USED_EVERY):
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def from_before() -> tuple[int, str]:
    """How many tokens an upgrade found that still work, and until which day the last of them does."""
    last = ApiToken.objects.good().filter(name=FROM_BEFORE).order_by("-expires_at")
    return len(last), f"{last[0].expires_at:%Y-%m-%d}" if last else ""


def _end(rows: Any, *, by: str) -> int:
    return int(rows.filter(ended_at=None).update(ended_at=timezone.now(), ended_by=by))


def end_with_the_password(sender: Any, instance: Any, update_fields: Any = None, **_: Any) -> None:
    """End the tokens of a person whose password changes, as their sessions end.

    Django stores the same password hashed anew when it has a better way; that is no change (``_password`` is None then,
    and the password the only field that is saved).
    """
    if instance.pk is None or (update_fields is not None and "password" not in update_fields):
        return
    only_hashed_anew = update_fields is not None and set(update_fields) == {"password"} and instance._password is None
    if only_hashed_anew or not ApiToken.objects.filter(user=instance, ended_at=None).exists():
        return
    before = sender._default_manager.filter(pk=instance.pk).values_list("password", flat=True).first()
    if before != instance.password and (ended := _end(ApiToken.objects.filter(user=instance), by="a new password")):
        audit.record("token.ended", actor=instance, detail={"user": instance.get_username(), "password": ended})


def watch_passwords() -> None:
    """Listen to every change of a person."""
    pre_save.connect(end_with_the_password, sender=get_user_model(), dispatch_uid="tokens end with the password")
