"""What ``agentops`` alone prints: every verb for people in one line. Django's own commands stay where they are."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator

from django.core.management import get_commands, load_command_class

INSTALLATION = (
    *("up", "migrate", "doctor", "login_link", "backup", "restore", "prune", "verify_chain", "anchor"),
    *("rebuild_projections", "monitor", "seed_demo"),
)
SETTING_UP = ("init", "workspace", "setup", "toml", "agent", "model", "rule", "policy", "test-model", "token")
COLUMN = 22


def listing() -> str:
    """Needs the application, and no server."""
    of_runs = dict(_of_runs())
    parts = {
        "Runs": {verb: text for verb, text in of_runs.items() if verb not in SETTING_UP},
        "Setting up": {verb: of_runs[verb] for verb in SETTING_UP},
        "The installation": dict(_of_the_installation()),
    }
    lines = ["usage: agentops VERB ...", ""]
    for title, verbs in parts.items():
        lines += [f"{title}:", *(line for verb, text in verbs.items() for line in _laid_out(verb, text)), ""]
    lines += [
        "agentops VERB --help says more; agentops --as USER VERB does it as that person.",
        "agentops help --commands has the commands of Django, too.",
    ]
    return "\n".join(lines)


def _of_runs() -> Iterator[tuple[str, str]]:
    parser = load_command_class("loops", "agentops").create_parser("agentops", "agentops")
    verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for verb in verbs._choices_actions:
        yield verb.dest, str(verb.help)


def _of_the_installation() -> Iterator[tuple[str, str]]:
    apps = get_commands()
    for verb in INSTALLATION:
        text = load_command_class(apps[verb], verb).help.partition(". ")[0].removesuffix(".")
        yield verb, text[0].lower() + text[1:]


def _laid_out(verb: str, text: str) -> Iterator[str]:
    width = max(COLUMN + 30, shutil.get_terminal_size().columns)
    indent = " " * COLUMN
    yield from textwrap.wrap(text, width, initial_indent=f"  {verb:<{COLUMN - 2}}", subsequent_indent=indent)
