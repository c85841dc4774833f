"""Settings of the fault suite: those of an installation, which the stand gives a state folder of its own.

What is not as in the product is listed in `tests/differences.toml`.
"""

import os

from agentops.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AGENTOPS_CELERY = os.environ.get("AGENTOPS_FAULTS_BELLS", "tests.faults.bells.silent")
TAKE_BACK_S = 0
