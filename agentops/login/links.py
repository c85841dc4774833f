"""Log in once with a link. Opening the link shows a button; only pressing it logs in, and only the first time.

Mail scanners and chat previews open links, so a GET changes nothing. The cache holds a hash, never the token.
"""

import hashlib
import secrets

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

LIFETIME = 3600  # seconds


def issue(user: User) -> str:
    """Make a link for one user; returns its path."""
    token = secrets.token_urlsafe(32)
    cache.set(_key(token), user.pk, LIFETIME)
    return reverse("login-once", args=[token])


def consume(token: str) -> User | None:
    """Take the token out of the world and return whom it was for. Of two callers one gets nothing."""
    key = _key(token)
    user_id = cache.get(key)
    if user_id is None or not cache.delete(key):
        return None
    return User.objects.filter(pk=user_id, is_active=True).first()


@never_cache
@require_http_methods(["GET", "POST"])
def login_once(request: HttpRequest, token: str) -> HttpResponse:
    """Show the button, or log in and forget the token."""
    used_up = False
    if request.method == "POST":
        if user := consume(token):
            login(request, user, backend="django.contrib.auth.backends.ModelBackend")
            return redirect(settings.LOGIN_REDIRECT_URL)
        used_up = True
    response = render(request, "registration/login_once.html", {"used_up": used_up}, status=410 if used_up else 200)
    # The address is the secret. "no-referrer" would make browsers post with `Origin: null`, which CSRF rightly refuses.
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def _key(token: str) -> str:
    return "login-once:" + hashlib.sha256(token.encode()).hexdigest()
