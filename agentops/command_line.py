"""``agentops VERB``: the same as ``manage.py VERB``, and for runs as ``manage.py agentops VERB``, from any folder."""

import os
import sys
from collections.abc import Sequence

STEERING = {"stop", "pause", "resume", "retry", "check_confidence"}
OF_RUNS = {"submit", "fork", "watch", "message", "runs", "token", *STEERING}
"""Written down: knowing them from the command itself would load the application before its settings are chosen."""


def main() -> None:
    """Run one command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(meant(sys.argv))


def meant(argv: Sequence[str]) -> list[str]:
    """With the name of the command that the verbs of runs belong to, where it was left out."""
    of_runs = OF_RUNS.intersection(argv[1:2])
    return [argv[0], *(["agentops"] if of_runs else []), *argv[1:]]
