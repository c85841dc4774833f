"""The commands that fetch a repository in the sandbox, and what their failures mean (SPEC I7, S3, ADR 0068).

git runs there as it does for a person who has no settings: without hooks, filters, submodules or other protocols.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from loops import masking
from loops.engine.text.truncation import shortened
from loops.models import Workspace
from loops.tools.limits import Limits
from loops.tools.sandbox.network.proxy import NEVER, NOT_NAMED
from loops.tools.sandbox.runner import Job
from loops.workspaces import networked, setup_failure
from loops.workspaces.folder_copy import MAX_BYTES, MAX_FILES

LIMITS = replace(Limits(), protected=())
"""What steers agents stays as it is committed: people wrote it, as in any folder of theirs."""
AUTHORIZATION = "SOURCE_AUTHORIZATION"
USER = "x-access-token"
WHY_CHARS = 300
NO_REPOSITORY = "The server has no such repository, or does not show it to this token."
_GIT = r"""
set -euo pipefail
export GIT_LFS_SKIP_SMUDGE=1
git() {
  command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.protectHFS=true -c core.protectNTFS=true \
    -c submodule.recurse=false -c gc.auto=0 -c maintenance.auto=false -c advice.detachedHead=false \
    -c http.lowSpeedLimit=1 -c http.lowSpeedTime=300 ${SSL_CERT_FILE:+-c "http.sslCAInfo=$SSL_CERT_FILE"} "$@"
}
"""
PRELUDE = (
    _GIT
    + r"""
url=$1 ref=$2 authorization=${SOURCE_AUTHORIZATION-}
unset SOURCE_AUTHORIZATION
export GIT_ALLOW_PROTOCOL="${url%%:*}"
ask() {
  if [ -z "$authorization" ]; then git "$@"; return; fi
  GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_1="http.$url.extraHeader" GIT_CONFIG_VALUE_1="Authorization: $authorization" \
    git "$@"
}
"""
)
"""``ask`` is git with the token, which its words have not. $1 is the address, $2 a ref."""
_FROM_A_SERVER = r"""
fetch() { ask fetch -q --no-recurse-submodules --no-auto-gc "$@"; }
is_a_commit() { [[ $1 =~ ^[0-9a-f]{7,64}$ ]]; }
what=HEAD at=FETCH_HEAD
if [ -n "$ref" ]; then
  named=$(ask ls-remote --refs -- "$url" "refs/heads/$ref" "refs/tags/$ref" | cut -f2)
  if grep -qxF -- "refs/heads/$ref" <<<"$named"; then what=refs/heads/$ref
  elif grep -qxF -- "refs/tags/$ref" <<<"$named"; then what=refs/tags/$ref
  elif is_a_commit "$ref"; then what=$ref
  else echo "It has no branch or tag $ref." >&2; exit 3; fi
fi
git init -q .
if ! is_a_commit "$what"; then
  fetch --no-tags --depth=1 -- "$url" "$what"
elif [ ${#what} -lt 40 ] || ! fetch --no-tags --depth=1 -- "$url" "$what"; then
  echo "The server does not give this commit by its name: all of the repository is fetched."
  fetch -- "$url" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*'
  at=$(git rev-parse --verify -q "$what^{commit}") || { echo "It has no commit $what." >&2; exit 3; }
fi
"""
_OUT = r"""
git checkout -q --detach "$at"
git log -1 --no-show-signature --format='Fetched %H of %cs: %s'
if [ -e .gitmodules ]; then echo "Submodules are not fetched: their folders are empty."; fi
if git grep -q -e filter=lfs HEAD -- ':(glob)**/.gitattributes'; then
  echo "Files in Git LFS are not fetched: pointers to them lie in their place."
fi
"""
_FROM_A_FOLDER = r"""
what=$1 from=$PWD/.git/source.git
export GIT_ALLOW_PROTOCOL=file
git init -q .
git init -q --bare "$from"
rm -rf "$from/objects"
mv objects "$from/objects"
if [ -e shallow ]; then mv shallow "$from/shallow"; fi
at=$(git -C "$from" rev-parse --verify -q "$what^{commit}") || { echo "It has no commit $what." >&2; exit 3; }
git -C "$from" update-ref refs/heads/source "$at"
git fetch -q --no-tags --no-recurse-submodules --no-auto-gc --depth=1 -- "file://$from" refs/heads/source
rm -rf "$from" .git/FETCH_HEAD
"""
REFUSED = re.compile(r"Authentication failed|could not read (Username|Password)|returned error: 40[13]|HTTP 40[13]")
MISSING = re.compile(r"repository '.*' not found|returned error: 404|HTTP 404")
_MEANS = (
    (MISSING, NO_REPOSITORY),
    (
        re.compile(r"couldn't find remote ref HEAD"),
        "The repository is empty, or its server names no branch: state one.",
    ),
    (
        re.compile(
            r"unable to read [0-9a-f]{40}|bad (object|tree|blob) |missing (tree|blob)|[Cc]ould not (read|parse) "
        ),
        "The repository does not have all of this commit itself, as in a partial clone: `git fsck` says more.",
    ),
)


def limits_of(workspace: Workspace) -> Limits:
    """Those of a set-up there, but for what is protected."""
    return replace(networked.limits_of(workspace), protected=LIMITS.protected)


def beside_a_copy(limits: Limits) -> Limits:
    """With room for the person's objects, which lie there as well until the commit is out of them."""
    more_files, more_bytes = limits.workspace_files + MAX_FILES, limits.workspace_bytes + MAX_BYTES
    return replace(limits, workspace_files=more_files, workspace_bytes=more_bytes)


def job(workspace: Workspace, network: str, run: str, environ: Mapping[str, str] = os.environ) -> Job:
    """The token goes to git by its environment, in this one command, in which no code of the repository runs. Raises
    ValueError with a sentence where the worker has none."""
    words = ("/bin/bash", "-c", PRELUDE + _FROM_A_SERVER + _OUT, "fetch", workspace.git_url, workspace.git_ref)
    given = authorized(workspace.git_token_env, environ)
    return Job(words, LIMITS.command_max_s, environment=given, network=network, run=run)


def authorized(name: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a command that asks with the token in ``name``. Raises ValueError with a sentence where there is
    none; without a name nothing is asked with."""
    if not name:
        return {}
    token = environ.get(name, "").strip()
    if not token:
        raise ValueError(f"The variable {name} of the worker holds no token.")
    words = token if ":" in token else f"{USER}:{token}"
    encoded = base64.b64encode(words.encode()).decode()
    masking.learn({name: token, f"{name}_ENCODED": encoded}, configured=True)
    return {AUTHORIZATION: f"Basic {encoded}"}


def job_of_a_folder(commit: str, run: str) -> Job:
    """In the folder that it runs in lie the objects of the repository, as ``local_repository.copy`` left them."""
    words = ("/bin/bash", "-c", _GIT + _FROM_A_FOLDER + _OUT, "fetch", commit)
    return Job(words, LIMITS.command_max_s, run=run)


def reason(workspace: Workspace, log: str, requests: Iterable[Mapping[str, Any]], killed: str) -> str:
    """Why it did not succeed, in a sentence for people."""
    if why := led_away(workspace, requests, killed):
        return why
    if REFUSED.search(log):
        if not (name := workspace.git_token_env):
            return "The server wants to know who asks: name the variable of a token that may read it."
        return f"The server refuses the token in {name}, or it may not read this repository."
    if said := next((said for words, said in _MEANS if words.search(log)), ""):
        return said
    if why := not_reached(requests):
        return why
    lines = [line for line in log.splitlines() if line.strip()]
    return shortened(lines[-1].removeprefix("fatal: "), WHY_CHARS) if lines else "git ended without a word."


def led_away(workspace: Workspace, requests: Iterable[Mapping[str, Any]], killed: str) -> str:
    """Why it came to no answer of the server itself; "" where it may have."""
    if killed:
        return f"It was ended: {killed}.{setup_failure.raised(killed, workspace)}"
    for one in requests:
        if one["why_not"] == NOT_NAMED:
            return f"The server leads on to {one['host']}, which nobody allowed: state the address that it leads to."
        if one["why_not"] == NEVER:
            return f"{one['host']} leads to an address that nobody may reach."
    return ""


def not_reached(requests: Iterable[Mapping[str, Any]]) -> str:
    """Which host did not answer, and why; "" where all did."""
    failed = next((one for one in requests if one["why_not"]), None)
    return f"{failed['host']} could not be reached: {failed['why_not']}." if failed else ""
