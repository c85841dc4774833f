"""Settings. Everything works with no environment at all; every variable is listed in the README."""

import gc
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from agentops.embedded import postgres, valkey
from agentops.embedded.paths import Paths, default_state
from agentops.logs import logging_config
from loops import masking

gc.disable()  # until `ready`: a start allocates much and frees nothing, and looking for garbage takes a seventh of it
BASE_DIR = Path(__file__).resolve().parent.parent
PACKED = BASE_DIR / "agentops" / "pages"  # where an installed package has what lies at the top of a checkout
PAGES = PACKED if PACKED.is_dir() else BASE_DIR
env = environ.Env()


def database_at(variable: str) -> dict[str, Any]:
    """Read a database address; its host may be a socket's folder, written with %2F."""
    if not env.str(variable).startswith(("postgres://", "postgresql://")):
        raise ImproperlyConfigured(f"{variable} is no address like postgres://user:password@host/name")
    address: dict[str, Any] = env.db_url(variable)
    return {**address, "HOST": unquote(str(address["HOST"]))}


# --- The installation ---------------------------------------------------------------------------------------------
PATHS = Paths(default_state())
HOST = env("HOST", default="127.0.0.1")
PORT = env.int("PORT", default=8000)
BASE_URL = env("BASE_URL", default=f"http://127.0.0.1:{env.int('PORT', default=PATHS.port_in_use(PORT))}")  # of links
DEBUG = env.bool("DEBUG", default=False)
WORKSPACE_ROOTS = [root for root in env("AGENTOPS_WORKSPACE_ROOTS", default="").split(os.pathsep) if root]
SECRET_KEY = env("SECRET_KEY", default="") or PATHS.secret("django")
HTTPS = BASE_URL.startswith("https://")
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[*LOCAL_HOSTS, urlsplit(BASE_URL).hostname or "localhost"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[BASE_URL] if HTTPS else [])

# --- Model providers (only workers import their SDKs) --------------------------------------------------------------
ANTHROPIC_API_KEY = env("ANTHROPIC_API_KEY", default="")
ANTHROPIC_BASE_URL = env("ANTHROPIC_BASE_URL", default="")
OPENAI_API_KEY = env("OPENAI_API_KEY", default="")
OPENAI_BASE_URL = env("OPENAI_BASE_URL", default="")

# --- Applications -------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    *(["daphne"] if "runserver" in sys.argv else []),  # only there it does anything, and its import costs 0.6 s
    "agentops",  # first among ours: its `migrate` runs as the owner of the database
    "loops",
    "gates",
    "unfold",
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    "agentops.admin_config.LateAdmin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "axes",
    "channels",
    "rest_framework",
    "rest_framework.authtoken",  # its table is emptied by our migrations: tokens are kept as hashes
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "agentops.edge.security_headers.SecurityHeaders",
    "agentops.edge.api_errors.Problems",
    "agentops.health.Probes",  # before whoever asks which host was meant
    "agentops.edge.nul_bytes.Storable",
    "agentops.login.token_throttle.Tokens",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "agentops.edge.admin_text.AdminText",
]
ROOT_URLCONF = "agentops.urls"
ASGI_APPLICATION = "agentops.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PAGES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
LANGUAGE_CODE = "en"
USE_TZ, TIME_ZONE = True, "UTC"  # Django exports TZ to its children, Postgres among them

# --- Static files: served by the application itself, no collectstatic, no CDN --------------------------------------
STATIC_URL = "/static/"
STATICFILES_DIRS = [folder for folder in (PAGES / "static",) if folder.is_dir()]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# --- Postgres: the application's role here, the owner's in `agentops.roles` -----------------------------------------
EMBEDDED_POSTGRES = not env("DATABASE_URL", default="")
LOG_ANCHORS = env.bool("AGENTOPS_LOG_ANCHORS", default=False)  # heads of history, for a log that is kept elsewhere
UNSAFE_DATABASE = env.bool("AGENTOPS_UNSAFE_DATABASE", default=False)
DATABASE_POOL = env.int("DATABASE_POOL", default=20)  # connections of one web process (`agentops.database_pool`)
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        **(postgres.connection_settings(PATHS, postgres.APP) if EMBEDDED_POSTGRES else database_at("DATABASE_URL")),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"prepare_threshold": 0},  # the default ignores prepared statements; the journal lives by them
    },
}
DATABASE_OWNER: dict[str, Any] | None
if EMBEDDED_POSTGRES:
    DATABASE_OWNER = postgres.connection_settings(PATHS, postgres.OWNER)
else:
    DATABASE_OWNER = database_at("DATABASE_OWNER_URL") if env("DATABASE_OWNER_URL", default="") else None
SYSTEM_CHECKS = "agentops.ops.checks"  # for pages, which may not import this package

# --- Valkey or Redis: bells, cache, live feed. Losing it loses nothing ----------------------------------------------
EMBEDDED_VALKEY = not env("REDIS_URL", default="")
REDIS_URL = env("REDIS_URL", default="") or valkey.url(PATHS)
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "agentops",
    },
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # Without socket_timeout=None redis-py 8 drops every websocket that is idle for five seconds.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}]},
    },
}

# --- Celery: rings bells. A lost or tripled message is harmless, so nothing is retried or acknowledged late ---------
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A request that cannot ring goes on at once: the sweeper rings later. Without this it would try for six seconds.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "max_retries": 0,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "socket_timeout": 2,  # nor does it wait for a broker that stands still
    "socket_connect_timeout": 2,
    # Acknowledged in memory alone. Were it in the broker, a job on its way while the broker dies would end the worker:
    # to put it back, kombu 5.7 asks through a connection that it has closed already, and does not catch the error.
    "ack_emulation": False,
}
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_ANNOTATIONS = {"*": {"max_retries": 0}}
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 16
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = TIME_ZONE
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "loops.sweep", "schedule": 3.0, "options": {"expires": 3}},
    "expire-gates": {"task": "gates.expire", "schedule": 5.0, "options": {"expires": 5}},
    "anchor": {"task": "agentops.anchor", "schedule": 30.0, "options": {"expires": 30}},
    "beat-alive": {"task": "loops.beat_alive", "schedule": 10.0, "options": {"expires": 10}},
}

# --- The monitor: what a run may spend a minute before it is paused; 0 for no bound -----------------------------------
MONITOR_USD_PER_MINUTE = env.float("MONITOR_USD_PER_MINUTE", default=2.0)
MONITOR_TOKENS_PER_MINUTE = env.float("MONITOR_TOKENS_PER_MINUTE", default=1_000_000.0)
# Name of a configured model that makes embeddings, and the cosine from which on two texts mean the same to it.
MONITOR_EMBEDDINGS = env("MONITOR_EMBEDDINGS", default="")
MONITOR_EMBEDDINGS_COSINE = env.float("MONITOR_EMBEDDINGS_COSINE", default=0.9)

# --- People -------------------------------------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=0)
TAKE_BACK_S = env.float("AGENTOPS_TAKE_BACK_SECONDS", default=5)
MOST_SOCKETS = 30  # live pages of one person, over all web processes
SOCKETS_PER_PERSON = env.int("AGENTOPS_SOCKETS_PER_PERSON", default=MOST_SOCKETS)
AXES_HANDLER = "agentops.login.attempts.Attempts"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address", "username"]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_CLIENT_IP_CALLABLE = "agentops.edge.client_address.counted_of_request"
AXES_USERNAME_CALLABLE = "agentops.login.attempts.name_of"
AXES_LOCKOUT_CALLABLE = "agentops.login.attempts.refuse"
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True  # the audit log has it
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

# --- Browser security: no inline script, no inline style, nothing from elsewhere -------------------------------------
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "manifest-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}
# The admin theme (Alpine) and the API pages bring inline code of their own; no other page gets this.
RELAXED_CSP_PREFIXES = ("/admin/", "/api/docs/")
RELAXED_CSP = {
    "script-src": ["'self'", "'unsafe-inline'", "'unsafe-eval'"],
    "style-src": ["'self'", "'unsafe-inline'"],
}
SESSION_COOKIE_NAME = "agentops_session"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
X_FRAME_OPTIONS = "DENY"

# --- API ----------------------------------------------------------------------------------------------------------
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "loops.api.authentication.HashedTokens",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["loops.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "loops.api.schema.Described",
    "EXCEPTION_HANDLER": "loops.api.problems.handler",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
}
SPECTACULAR_SETTINGS = {
    "TITLE": "AgentOps",
    "DESCRIPTION": "Runs, traces, gates and decisions.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {
        "BreakerKind": "loops.models.breakers.BreakerKind",
        "BreakerStatus": "loops.models.breakers.Breaker.Status",
        "DetectionKind": "loops.models.detections.Detection.Kind",
        "GateKind": "gates.models.Gate.Kind",
        "GateStatus": "gates.models.Gate.Status",
    },
}
UNFOLD = {"SITE_TITLE": "AgentOps", "SITE_HEADER": "AgentOps", "SITE_URL": "/"}

# --- Secrets that the environment does not hold: masked as those that it does --------------------------------------
masking.learn(
    {
        "SECRET_KEY": SECRET_KEY,
        "DATABASE_PASSWORD": str(DATABASES["default"].get("PASSWORD") or ""),
        "DATABASE_OWNER_PASSWORD": str((DATABASE_OWNER or {}).get("PASSWORD") or ""),
    },
    configured=True,
)

# --- Logs ---------------------------------------------------------------------------------------------------------
LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logging_config(level=env("LOG_LEVEL", default="INFO"), as_json=env("LOG_FORMAT", default="text") == "json")
