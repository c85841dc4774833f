"""What programs log in with: kept as a hash, so that whoever reads the database cannot use one."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from loops.ids import new_id


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def good(self) -> ApiTokenQuerySet:
        """Those that still let somebody in, by the database's clock."""
        return self.filter(ended_at=None, expires_at__gt=Now(), user__is_active=True)


class ApiToken(models.Model):
    """A token of one person. ``digest`` is the SHA-256 of it: a token has 240 random bits, so no salt adds anything."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=40, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "id"]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"
