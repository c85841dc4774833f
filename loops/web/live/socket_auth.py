"""Who holds a socket open is asked again every few seconds: logged out or without a role means closed (attack 45).

All sockets of a process are checked together with three queries, so that five hundred of them cost what one does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.utils import timezone

from loops.models import Membership
from loops.querysets import OPERATE, REVIEW
from loops.web.access import Audience
from loops.web.live.catch_up import in_thread

log = logging.getLogger(__name__)
EVERY = 2.0
LOGGED_OUT, NO_ACCESS = 4401, 4403


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a socket was opened with."""

    user_id: Any
    session_key: str
    auth_hash: str
    project_id: str = ""
    audience: Audience = field(default_factory=Audience)
    projects: frozenset[str] | None = frozenset()


class SocketAuthorizer:
    """Closes sockets whose pass is no longer good. Belongs to one event loop."""

    def __init__(self) -> None:
        self._held: dict[Any, Ticket] = {}
        self._task: asyncio.Task[None] | None = None

    def admit(self, socket: Any, issued: Ticket) -> None:
        """``socket`` has a coroutine ``turn_out(code)``."""
        self._held[socket] = issued
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._patrol())

    def dismiss(self, socket: Any) -> None:
        self._held.pop(socket, None)

    async def _patrol(self) -> None:
        while self._held:
            await asyncio.sleep(EVERY)
            try:
                held = dict(self._held)
                verdicts = await in_thread(lambda held=held: judge(set(held.values())))  # type: ignore[misc]
            except DatabaseError as error:
                log.warning("sockets could not be checked, closing nothing yet: %s", error)
                continue
            for socket, issued in held.items():
                if code := verdicts[issued]:
                    self.dismiss(socket)
                    with contextlib.suppress(Exception):  # it may have closed by itself meanwhile
                        await socket.turn_out(code)


def judge(passes: set[Ticket]) -> dict[Ticket, int]:
    """0 for a good pass, else the code to close with."""
    keys = {issued.session_key for issued in passes}
    alive = set(
        Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now()).values_list(
            "session_key", flat=True
        )
    )
    people = get_user_model()._default_manager.in_bulk({issued.user_id for issued in passes})
    roles: dict[Any, dict[str, set[str]]] = {}
    for user_id, project_id, role in Membership.objects.filter(user__in=people).values_list("user", "project", "role"):
        roles.setdefault(user_id, {}).setdefault(project_id, set()).add(role)
    return {issued: _code(issued, alive, people.get(issued.user_id), roles) for issued in passes}


def _code(issued: Ticket, alive: set[str], user: Any, roles: dict[Any, dict[str, set[str]]]) -> int:
    if user is None or not user.is_active or issued.session_key not in alive:
        return LOGGED_OUT
    if user.get_session_auth_hash() != issued.auth_hash:
        return LOGGED_OUT  # a new password ends every session
    if user.is_superuser:
        return 0 if issued.projects is None else NO_ACCESS
    mine = roles.get(user.pk, {})
    if not issued.project_id:
        return 0 if issued.projects == frozenset(mine) else NO_ACCESS
    held = mine.get(issued.project_id, set())
    now = Audience(not held.isdisjoint(OPERATE), not held.isdisjoint(REVIEW))
    return 0 if held and now == issued.audience else NO_ACCESS


_guards: dict[int, tuple[asyncio.AbstractEventLoop, SocketAuthorizer]] = {}


def guard() -> SocketAuthorizer:
    """The guard of the running event loop."""
    loop = asyncio.get_running_loop()
    for key, (other, _) in list(_guards.items()):
        if other.is_closed():
            del _guards[key]
    if id(loop) not in _guards:
        _guards[id(loop)] = (loop, SocketAuthorizer())
    return _guards[id(loop)][1]


assert settings.SESSION_ENGINE.endswith((".db", ".cached_db")), "sockets are checked against sessions in the database"
