"""Evidence that somebody was shown the whole of a gate (SPEC Q5).

The proof is made where something is given out and nowhere else: on a card, in the preview of several, in the API's
answer about one gate, and for each changed file of a result with the lines of that file. Lists give the digest, and a
digest says which gate is meant, not that anybody has read it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac

from gates.models import Gate
from loops.engine.rollback.plan import FileChange
from loops.services import changed_files

JOINED_BY = "."


def proof(actor: Any, gate: Gate, path: str = "") -> str:
    """Hex text that only who was shown ``gate`` as it is now can send back; another person's is worth nothing.

    With a ``path`` it stands for the contents of that changed file alone.
    """
    return _made(actor.pk, gate.pk, gate.digest, path)


def whole_proof(actor: Any, gate: Gate) -> str:
    """What has to be sent back: the proof of the gate, then of each changed file whose contents there are to see."""
    files = (file.path for file in changed_files.outlined(changes_of(gate)) if file.has_contents)
    return JOINED_BY.join(proof(actor, gate, path) for path in ("", *files))


def was_shown(actor: Any, gate: Gate, sent: str) -> bool:
    """Is ``sent`` the proof of ``actor`` for all that ``gate`` holds now?"""
    return constant_time_compare(sent, whole_proof(actor, gate))


def unshowable(gate: Gate) -> list[str]:
    """What of a result can be shown to nobody, in words; while there is any, nobody can accept the result."""
    hidden = [file for file in changed_files.outlined(changes_of(gate)) if file.is_hidden]
    found = [f"{file.path}: {file.note[:1].lower()}{file.note[1:]}" for file in hidden]
    more = gate.view.get("more_changed") if gate.kind == Gate.Kind.FINAL_REVIEW else 0
    return [*found, *([f"{more:,} more files are not listed."] if more else [])]


def changes_of(gate: Gate) -> Sequence[FileChange]:
    """The files that a result is about, by the states that the view names, so that the decision binds to the very
    bytes; older gates name none."""
    if gate.kind != Gate.Kind.FINAL_REVIEW:
        return ()
    named = gate.view.get("changed")
    if isinstance(named, list):
        return [FileChange(one["path"], one["before"], one["after"]) for one in named]
    return changed_files.recorded(gate.run).net


def _made(person: Any, gate: uuid.UUID, digest: str, path: str) -> str:
    return salted_hmac("gates.shown", f"{person}:{gate}:{digest}:{path}", algorithm="sha256").hexdigest()
