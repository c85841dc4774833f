"""What must hold for an installation to keep its promises: asked by `manage.py doctor` and shown on the System page.

A check never fails itself: what keeps it from answering is the very thing to be told.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from agentops import roles
from agentops.health import BEAT_KEY, OLDEST_BEAT
from agentops.ops import (
    anchors,
    chains,
    disk,
    monitor,
    packages,
    policy_floor,
    pruning,
    refusals,
    relaxations,
    schemas,
    secrets,
    upgrades,
    workspaces,
)
from agentops.ops.finding import ERROR, OK, WARNING, Finding
from agentops.ops.programs import server_version
from loops.engine.text.truncation import shortened
from loops.models import AuditEvent, Run
from loops.services import retention
from loops.services.sandbox import KEY as SANDBOX_KEY
from loops.storage.journal import TTL_S

OLDEST_SERVER = 14
CLOCKS_APART_S = 2.0
UNTAKEN_S = 60
BACKUP_DAYS = 7
DURABLE = {
    "fsync": "Commits reach the disk",
    "synchronous_commit": "A commit waits until it is durable",
    "full_page_writes": "Pages that a crash cut in half can be repaired",
}
UNREACHED = {
    "database": "start it, or see DATABASE_URL",
    "work": "run `manage.py migrate`",
    "history": "run `manage.py migrate`",
    "parts": "start AgentOps, or see REDIS_URL",
}
UNSAFE = "committed work can be lost in a crash: turn it on in postgresql.conf and reload"


@dataclass(frozen=True)
class Check:
    """``said``: what was found; ``todo``: what to do about it, empty when ok; ``detail``: for the terminal only."""

    group: str
    name: str
    status: str
    said: str
    todo: str = ""
    detail: str = ""


def standing() -> list[Check]:
    """What changes seldom: settings, database, history, disk, work left over. A few quick queries."""
    around = [*_run("settings", SETTINGS), *_run("disk", DISK)]
    reached = _run("database", {"server": _server})
    if reached[0].status == ERROR:  # no other question would be answered either
        return [*around, *reached]
    return [*around, *reached, *_run("database", DATABASE), *_run("work", WORK)]


def moving() -> list[Check]:
    """The parts that may come and go: broker, clock, sandbox. Asked with short patience."""
    return _run("parts", PARTS)


def everything(*, all_chains: bool = False) -> list[Check]:
    """All there is to check, workers and chains too: takes seconds, with ``all_chains`` as long as history is."""
    workers = _run("parts", {"workers": _workers})
    return [*standing(), *moving(), *workers, *_run("history", {"chains": lambda: chains.verified(all_chains)})]


def _run(group: str, checks: dict[str, Callable[[], Finding]]) -> list[Check]:
    return [_answer(group, name, check) for name, check in checks.items()]


def _answer(group: str, name: str, check: Callable[[], Finding]) -> Check:
    try:
        return Check(group, name, *check())
    except Exception as error:  # any transport's or server's error is an answer too
        detail = shortened(next(iter(str(error).strip().splitlines()), ""), 300)
        return Check(group, name, ERROR, f"does not answer ({type(error).__name__})", UNREACHED.get(group, ""), detail)


def _one(statement: str, params: Sequence[Any] = ()) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchone()[0]


# --- Settings -----------------------------------------------------------------------------------------------------


def _debug() -> Finding:
    if settings.DEBUG:
        return ERROR, "DEBUG is on", "unset DEBUG: it shows internals to everybody who makes an error happen"
    return OK, "DEBUG is off"


def _hosts() -> Finding:
    if "*" in settings.ALLOWED_HOSTS:
        return WARNING, "Any host name is served", "name yours in ALLOWED_HOSTS"
    return OK, f"Serves {', '.join(settings.ALLOWED_HOSTS)}"


def _https() -> Finding:
    if settings.HTTPS or settings.HOST in ("127.0.0.1", "localhost", "::1"):
        return OK, f"Reached at {settings.BASE_URL}"
    return WARNING, f"{settings.BASE_URL} is not encrypted", "put a TLS proxy in front and set BASE_URL to https://"


def _secret_file() -> Finding:
    file = settings.PATHS.state / "secret"
    if file.exists() and file.stat().st_mode & 0o077:
        return ERROR, f"{file} can be read by others", f"run `chmod 600 {file}`"
    return OK, "The secret is readable by AgentOps only" if file.exists() else "SECRET_KEY comes from the environment"


# --- Database -----------------------------------------------------------------------------------------------------


def _server() -> Finding:
    version = str(_one("SHOW server_version"))
    if server_version() < OLDEST_SERVER:
        return ERROR, f"PostgreSQL {version}", f"upgrade to {OLDEST_SERVER} or newer"
    return OK, f"PostgreSQL {version}"


def _switch(name: str) -> Callable[[], Finding]:
    def check() -> Finding:
        value = str(_one(f"SHOW {name}"))
        if value == "off":
            return ERROR, f"{name} is {value}", UNSAFE
        return OK, f"{DURABLE[name]} ({name} is {value})"

    return check


def _primary() -> Finding:
    if _one("SELECT pg_is_in_recovery()"):
        return ERROR, "This is a read replica", "point DATABASE_URL at the primary"
    return OK, "This is the primary"


def _role() -> Finding:
    role, superuser = (
        str(_one("SELECT current_user")),
        _one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"),
    )
    if superuser:
        return (
            ERROR,
            f"The role {role} is a superuser",
            "connect as a role that owns nothing, and set DATABASE_OWNER_URL",
        )
    return OK, f"The role {role} is no superuser"


def _timeout(name: str, below_s: float) -> Callable[[], Finding]:
    def check() -> Finding:
        milliseconds = int(_one("SELECT setting FROM pg_settings WHERE name = %s", [name]))
        if 0 < milliseconds <= below_s * 1000:
            return OK, f"{name} is {milliseconds / 1000:g} s"
        value = f"{milliseconds / 1000:g} s" if milliseconds else "off"
        todo = f"ALTER ROLE {roles.app_role()} SET {name} = '{roles.TIMEOUTS[name]}', or run `migrate` as the owner"
        return WARNING, f"{name} is {value}: a frozen worker can hold locks", todo

    return check


def _connections() -> Finding:
    used, most = int(_one("SELECT count(*) FROM pg_stat_activity")), int(_one("SHOW max_connections"))
    if used > 0.8 * most:
        return WARNING, f"{used} of {most} connections are used", "raise max_connections or lower DATABASE_POOL"
    return OK, f"{used} of {most} connections are used"


def _migrations() -> Finding:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan[:5])
        return ERROR, f"Migrations not applied ({len(plan)}): {names}", "run `manage.py migrate`"
    return OK, "All migrations are applied"


def _append_only() -> Finding:
    tables = roles.database_promises()["append_only_tables"]
    with connection.cursor() as cursor:
        cursor.execute(_GUARDED, [list(tables)])
        guarded = {table for (table,) in cursor.fetchall()}
    open_ = sorted(table for table, kept in tables.items() if not kept or table not in guarded)
    if open_:
        return ERROR, f"Can be rewritten: {', '.join(open_)}", "run `manage.py migrate` with DATABASE_OWNER_URL set"
    return OK, f"The database itself refuses to rewrite {len(tables)} tables"


_GUARDED = """
    SELECT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE NOT tgisinternal AND tgenabled = 'A' AND relname = ANY(%s) GROUP BY relname HAVING count(*) >= 2
"""


def _clocks() -> Finding:
    before = time.time()
    there = float(_one("SELECT extract(epoch FROM clock_timestamp())"))
    apart = there - (before + time.time()) / 2
    if abs(apart) > CLOCKS_APART_S:
        return WARNING, f"The database's clock is {apart:+.1f} s from ours", "synchronise both machines (NTP)"
    return OK, f"Database and application are {abs(apart) * 1000:.0f} ms apart"


# --- Work ---------------------------------------------------------------------------------------------------------


def _dead_letters() -> Finding:
    count = Run.objects.dead_lettered().count()
    if count:
        todo = "open them under Runs (state: Given up by AgentOps) and try them again"
        return WARNING, f"Runs that AgentOps gave up: {count}", todo
    return OK, "AgentOps gave up no run"


def _untaken() -> Finding:
    statement = """
        SELECT count(*) FROM agent_execution_history
        WHERE (runnable AND owner = '' OR lease_until < clock_timestamp())
          AND last_activity_at < clock_timestamp() - make_interval(secs => %s)
          AND (lease_until IS NULL OR lease_until < clock_timestamp() - make_interval(secs => %s))
    """
    count = int(_one(statement, [UNTAKEN_S, UNTAKEN_S]))
    if count:
        return (
            WARNING,
            f"Runs that wait for a worker for more than {UNTAKEN_S} s: {count}",
            "start workers and the scheduler",
        )
    return OK, "No run waits for a worker"


def _backup() -> Finding:
    """Made on this installation; whoever copies the database in another way may leave the warning be."""
    last = AuditEvent.objects.filter(kind="backup.made").order_by("-at").values_list("at", flat=True).first()
    first = Run.objects.order_by("started_at").values_list("started_at", flat=True).first()
    since = last or first
    days = (timezone.now() - since).days if since else 0
    if days > BACKUP_DAYS:
        said = f"The last backup is {days} days old" if last else f"No backup was made in {days} days"
        return WARNING, said, "run `manage.py backup`, best every night"
    return OK, f"The last backup was made {days} days ago" if last else "Nothing to back up yet"


def _retention() -> Finding:
    keeping = retention.keeping()
    if not keeping:
        return OK, "No retention policy set"
    said = ", ".join(f"{project.name} after {project.keep_days} days" for project in keeping[:5])
    if not pruning.may_prune():
        todo = "run `manage.py prune` where DATABASE_OWNER_URL is set"
        return WARNING, f"{said}: but AgentOps may not delete here", todo
    return OK, f"Old runs are pruned: {said}"


# --- Parts --------------------------------------------------------------------------------------------------------


def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)


def _broker() -> Finding:
    with _client() as client:
        began = time.perf_counter()
        client.ping()
        took = (time.perf_counter() - began) * 1000
        info: Any = client.info("server")
    version = info.get("valkey_version") or info.get("redis_version", "?")
    return OK, f"{version}, answers in {took:.1f} ms"


def _clock() -> Finding:
    with _client() as client:
        rang_at: Any = client.get(BEAT_KEY)
    if rang_at is None:
        return ERROR, "not heard yet", "start the scheduler and a worker"
    age = max(0.0, time.time() - float(rang_at))
    if age > OLDEST_BEAT:
        return ERROR, f"silent for {age:.0f} s", "start the scheduler and a worker"
    return OK, f"last beat {age:.0f} s ago"


def _sandbox() -> Finding:
    with _client() as client:
        told: Any = client.get(SANDBOX_KEY)
    if told is None:
        return WARNING, "not reported yet", "a worker reports it when it runs"
    found = json.loads(told)
    said = f"level {found['level']}, {found.get('name', '')}".rstrip(", ")
    if found["level"] < 3:
        return WARNING, f"{said}: {found['warning']}", found.get("remedy", "")
    return OK, said


def workers() -> list[dict[str, Any]]:
    """Who answers within a second: name, slots, uptime in seconds."""
    from agentops.celery import app

    stats = app.control.inspect(timeout=1.0).stats() or {}
    return [
        {"name": name, "slots": (found.get("pool") or {}).get("max-concurrency"), "uptime": found.get("uptime")}
        for name, found in sorted(stats.items())
    ]


def _workers() -> Finding:
    alive = workers()
    if not alive:
        return ERROR, "no response within a second", "start a worker"
    return OK, f"{len(alive)} alive: {', '.join(worker['name'] for worker in alive)}"


SETTINGS = {
    "debug": _debug,
    "hosts": _hosts,
    "address": _https,
    "secret": _secret_file,
    "safety": relaxations.switches,
    "log-in": relaxations.proxies,
    "packages": packages.packages,
    "workspace roots": workspaces.roots,
    "masking": secrets.masked,
}
DATABASE: dict[str, Callable[[], Finding]] = {
    **{name: _switch(name) for name in DURABLE},
    "primary": _primary,
    "role": _role,
    "idle_in_transaction_session_timeout": _timeout("idle_in_transaction_session_timeout", TTL_S),
    "lock_timeout": _timeout("lock_timeout", 60),
    "statement_timeout": _timeout("statement_timeout", 600),
    "connections": _connections,
    "migrations": _migrations,
    "append-only": _append_only,
    "clocks": _clocks,
}
WORK = {
    "dead letters": _dead_letters,
    "waiting": _untaken,
    "output schemas": schemas.output,
    "backup": _backup,
    "retention": _retention,
    "anchor": anchors.anchored,
    "tokens": relaxations.tokens,
    "task limits": policy_floor.open_runs,
    **upgrades.CHECKS,
    "refused": refusals.lately,
    "embeddings": monitor.embeddings,
    "model addresses": secrets.addresses,
    "workspaces": workspaces.refused,
}
DISK = {"room": disk.room}
PARTS = {"broker": _broker, "clock": _clock, "monitor": monitor.monitor, "sandbox": _sandbox}
