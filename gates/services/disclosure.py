"""Evidence that somebody was shown the whole of a gate (SPEC Q5).

The proof is made where something is given out and nowhere else: on a card, in the preview of several, in the API's
answer about one gate, and for each changed file of a result with the lines of that file. Lists give the digest, and a
digest says which gate is meant, not that anybody has read it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac

from gates.models import Gate
from loops.engine.rollback.plan import FileChange
from loops.workspaces import changed_files
from loops.workspaces.changed_files import ChangedFile

JOINED_BY = "."


def proof(actor: Any, gate: Gate, path: str = "") -> str:
    """Hex text that only who was shown ``gate`` as it is now can send back; another person's is worth nothing.

    With a ``path`` it stands for the contents of that changed file alone.
    """
    return _made(actor.pk, gate.pk, gate.digest, path)


@dataclass(frozen=True, slots=True)
class GivenOut:
    """A changed file of a result, and the proof that its contents came with it; "" where they did not."""

    file: ChangedFile
    proof: str


def given_out(actor: Any, gate: Gate) -> list[GivenOut]:
    """The changed files of a result, with their diffs as far as there is room on a page."""
    return [_given(actor, gate, file) for file in changed_files.compared(changes_of(gate))]


def opened(actor: Any, gate: Gate, path: str) -> GivenOut | None:
    """One of them with its whole diff; None where none is called so."""
    file = changed_files.opened(changes_of(gate), path)
    return _given(actor, gate, file) if file else None


def outline(gate: Gate) -> list[ChangedFile]:
    """The changed files of a result, without their diffs; one query."""
    return changed_files.outlined(changes_of(gate))


def whole_proof(actor: Any, gate: Gate, files: Sequence[ChangedFile] | None = None) -> str:
    """What has to be sent back: the proof of the gate, then of each changed file whose contents there are to see.
    ``files`` is its ``outline``, of whoever has it."""
    paths = (file.path for file in (outline(gate) if files is None else files) if file.has_contents)
    return JOINED_BY.join(proof(actor, gate, path) for path in ("", *paths))


def unshowable(gate: Gate, files: Sequence[ChangedFile]) -> list[str]:
    """What can be shown to nobody, in words; while there is any, nobody can accept the result or approve the call."""
    found = [*_cut(gate.view)]
    found += [f"{file.path}: {file.note[:1].lower()}{file.note[1:]}" for file in files if file.is_hidden]
    more = gate.view.get("more_changed") if gate.kind == Gate.Kind.FINAL_REVIEW else 0
    return [*found, *([f"{more:,} more files are not listed."] if more else [])]


def _cut(view: Mapping[str, Any]) -> Iterator[str]:
    """What the view itself says it has only the beginning of. What is deleted need not be read to its end."""
    whole = view.get("diff_chars")
    if isinstance(whole, int) and not view.get("deleted"):
        yield f"{view.get('path', '')}: its diff of {whole:,} characters is too long to be shown."
    scripts = view.get("scripts")
    for one in scripts if isinstance(scripts, list) else ():
        if isinstance(one, dict) and one.get("is_hidden"):
            yield f"{one.get('path', '')}: this script is too long to be shown."


def was_shown(actor: Any, gate: Gate, sent: str, files: Sequence[ChangedFile]) -> bool:
    """Is ``sent`` the proof of ``actor`` for all that ``gate`` holds now?"""
    return constant_time_compare(sent, whole_proof(actor, gate, files))


def changes_of(gate: Gate) -> Sequence[FileChange]:
    """The files that a result is about, by the states that the view names, so that the decision binds to the very
    bytes; older gates name none."""
    if gate.kind != Gate.Kind.FINAL_REVIEW:
        return ()
    named = gate.view.get("changed")
    if isinstance(named, list):
        return [FileChange(one["path"], one["before"], one["after"]) for one in named]
    return changed_files.recorded(gate.run).net


def _given(actor: Any, gate: Gate, file: ChangedFile) -> GivenOut:
    here = file.has_contents and not file.is_apart
    return GivenOut(file, proof(actor, gate, file.path) if here else "")


def _made(person: Any, gate: uuid.UUID, digest: str, path: str) -> str:
    return salted_hmac("gates.shown", f"{person}:{gate}:{digest}:{path}", algorithm="sha256").hexdigest()
