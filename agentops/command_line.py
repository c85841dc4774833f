"""``agentops VERB``: the same as ``manage.py VERB``, and for runs as ``manage.py agentops VERB``, from any folder."""

import os
import sys
from collections.abc import Sequence

from agentops import prerequisites
from agentops.embedded.root import service_user

STEERING = {"stop", "pause", "resume", "retry", "check_confidence"}
OF_RUNS = {
    *("submit", "fork", "watch", "message", "runs", "diff", "patch", "apply", "commit", "push", "pull-request", "try"),
    *("workspace", "setup", "toml", "agent", "model", "rule", "policy", "token", "init", "test-model"),
    *STEERING,
}
"""Written down: knowing them from the command itself would load the application before its settings are chosen."""

NO_VERB: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])


def main() -> None:
    """Run one command."""
    run(meant(sys.argv), lists_verbs=True)


def run(argv: Sequence[str], *, lists_verbs: bool = False) -> None:
    """Run a management command; what it lacks in order to work is one sentence, with ``--traceback`` all of it.

    ``lists_verbs``: without a verb print those for people, and not every command that Django finds.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
    try:
        if lists_verbs and list(argv[1:]) in NO_VERB:
            _list_verbs()
            return
        service_user.give_up_root(argv)
        from django.core.management import execute_from_command_line

        execute_from_command_line(list(argv))
    except Exception as error:
        said = prerequisites.sentence(error)
        if said is None or "--traceback" in argv:
            raise
        sys.exit(said)


def _list_verbs() -> None:
    import django

    django.setup()
    from agentops import verbs

    sys.stdout.write(f"{verbs.listing()}\n")


def meant(argv: Sequence[str]) -> list[str]:
    """With the name of the command that the verbs of runs belong to, where it was left out."""
    verb = argv[3:4] if argv[1:2] == ["--as"] else argv[2:3] if argv[1:2] and argv[1].startswith("--as=") else argv[1:2]
    of_runs = OF_RUNS.intersection(verb)
    return [argv[0], *(["agentops"] if of_runs else []), *argv[1:]]
