"""The command that pushes one commit as a new branch, and what its failures mean (SPEC I7, S3, ADR 0075).

git runs as when it fetches: in the sandbox, by the protocol of the address alone. What a server says is hostile input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loops.engine.text.truncation import shortened
from loops.models import Workspace
from loops.printable.text import printable
from loops.tools.sandbox.runner import Job
from loops.workspaces.fetch_command import (
    LIMITS,
    MISSING,
    NO_REPOSITORY,
    PRELUDE,
    REFUSED,
    WHY_CHARS,
    authorized,
    led_away,
    not_reached,
)

AGAIN = "Order it again when that is put right."
_SCRIPT = (
    PRELUDE
    + r"""
commit=$3 failed=0
standing() {
  ask ls-remote --refs -- "$url" "$ref" | while read -r name at; do
    if [ "$at" = "$ref" ]; then printf '%s' "$name"; fi
  done
}
there=$(standing)
if [ -z "$there" ]; then
  # the lease is for a branch that is not there: one that comes meanwhile is not moved, wherever it points
  ask push --porcelain --no-verify --no-signed --no-follow-tags --no-recurse-submodules "--force-with-lease=$ref:" \
    -- "$url" "$commit:$ref" || failed=$?
  there=$(standing)
fi
if [ -n "$there" ]; then printf '\nstands for %s\n' "$there"; fi
[ "$there" = "$commit" ] || exit $((failed ? failed : 1))
"""
)
_STANDS_FOR = re.compile(r"^stands for ([0-9a-f]{40})$", re.MULTILINE)
_REJECTED = re.compile(r"^!\t[^\t\n]*\t\[[a-z ]+\] \((.*)\)$", re.MULTILINE)
_WORDS_OF_THE_SERVER = re.compile(r"^remote: (.*)$", re.MULTILINE)


def job(workspace: Workspace, ref: str, commit: str, network: str, run: str) -> Job:
    """Raises ValueError with a sentence where the worker has no token."""
    words = ("/bin/bash", "-c", _SCRIPT, "push", workspace.git_url, ref, commit)
    variables = authorized(workspace.git_push_token_env)
    return Job(words, LIMITS.command_max_s, environment=variables, network=network, run=run)


def standing(log: str) -> str:
    """The commit that the branch is on the server at the end; "" where there is none, or nobody knows."""
    found = _STANDS_FOR.findall(log)
    return found[-1] if found else ""


def reason(workspace: Workspace, log: str, requests: Sequence[Mapping[str, Any]], killed: str) -> str:
    """Why the branch is not there, in a sentence for people."""
    return f"{' '.join(_reasons(workspace, log, requests, killed))} {AGAIN}"


def _reasons(workspace: Workspace, log: str, requests: Sequence[Mapping[str, Any]], killed: str) -> Iterator[str]:
    rejected = _REJECTED.search(log)
    if why := led_away(workspace, requests, killed):
        yield why
    elif rejected:
        yield f"The server refuses the branch: {_shown(rejected[1])}."
        if words := " ".join(" ".join(_WORDS_OF_THE_SERVER.findall(log)).split()):
            yield f"It says: “{_shown(words)}”."
    elif REFUSED.search(log):
        yield f"The server refuses the token in {workspace.git_push_token_env}, or it may not write to this repository."
    elif MISSING.search(log):
        yield NO_REPOSITORY
    elif why := not_reached(requests):
        yield why
    else:
        lines = [line for line in log.splitlines() if line.strip()]
        yield _shown(lines[-1].removeprefix("fatal: ")) if lines else "git ended without a word."


def _shown(text: str) -> str:
    return printable(shortened(text, WHY_CHARS))
