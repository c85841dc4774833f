"""Settings of the test suite: its own state folder, so that no installation is ever touched.

They choose it here because pytest-django reads settings before any conftest. A process started by a test gets the
suite's folder and database through two variables. What is not as in the product is listed in `differences.toml`.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from tests import prepared

outside = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "BASE_URL", "HOST", "PORT", "ALLOWED_HOSTS", "SECRET_KEY")
models = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")

if not (state := os.environ.get("AGENTOPS_TEST_STATE")):
    state = tempfile.mkdtemp(prefix="ao-", dir="/tmp")  # short: socket paths are limited
    Path(state).chmod(0o711)
    prepared.same_secret(Path(state))
    os.environ["AGENTOPS_WORKSPACE_ROOTS"] = tempfile.gettempdir()  # where tests make their folders
    atexit.register(shutil.rmtree, state, ignore_errors=True)
    for variable in (*outside, *models):  # no test touches an installation or talks to a real model
        os.environ.pop(variable, None)
os.environ["AGENTOPS_STATE"] = state
os.environ["AGENTOPS_UNSAFE_DATABASE"] = "1"  # the suite's Postgres does not wait for the disk

from agentops.settings import *  # noqa: E402, F403
from agentops.settings import DATABASES  # noqa: E402

if not os.environ.get("AGENTOPS_TEST_STATE"):
    TAKE_BACK_S = 0  # processes that tests start wait like the product
    DATABASE_POOL = 0  # the process of the tests is no web server, and some of them load the web application into it
    # Longer than in production, where the role has 5, 10 and 60 s: a test holds one transaction, and fifty threads wait
    # for one lock, also while the machine is busy.
    patience = {"idle_in_transaction_session_timeout": "120s", "lock_timeout": "120s", "statement_timeout": "300s"}
    DATABASES["default"]["OPTIONS"]["options"] = " ".join(f"-c {name}={value}" for name, value in patience.items())
DATABASES["default"]["TEST"] = {"NAME": prepared.DATABASE}
if database := os.environ.get("AGENTOPS_TEST_DATABASE"):
    DATABASES["default"]["NAME"] = database
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
