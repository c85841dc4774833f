"""Settings (minimal start)."""

from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "start"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "agentops.urls"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "agentops",
    "loops",
    "gates",
]
MIDDLEWARE: list[str] = []
STATIC_URL = "/static/"
USE_TZ, TIME_ZONE = True, "UTC"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres"}}
