"""What a run changed, as a patch to carry elsewhere: `git am` makes a commit of it, `git apply` only the changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.header import Header
from email.utils import format_datetime, formataddr
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from loops.engine.rollback.plan import FileChange, Undo
from loops.models import Blob, ProvenanceRecord, Run
from loops.printable.text import printable
from loops.tools.patches import fits, patch
from loops.workspaces import changed_files

MOST_BYTES = 64 * 1024 * 1024
"""Of all changed files before and after, together."""
SUBJECT_CHARS = 72
_NO_ADDRESS = str.maketrans("", "", '<>"@\\')
"""Signs by which git would find another address in a name."""
PRUNED = "The texts of this run were pruned, and what it changed with them."
NOTHING_CHANGED = "This run changed no file."


class NoPatch(Exception):
    """There is none; the message says why."""


@dataclass(frozen=True, slots=True)
class Patch:
    """``diff`` is what git applies. ``left_out`` says, line by line, what is changed and not in it."""

    header: bytes
    diff: bytes
    left_out: tuple[str, ...]

    @property
    def message(self) -> bytes:
        """The whole in the form of an e-mail, which ``git am`` reads (git-format-patch)."""
        return self.header + self.diff


@dataclass(frozen=True, slots=True)
class Portable:
    """``left_out`` says, in lines, what is changed and not among ``changes``; ``sizes`` has those of their blobs."""

    changes: tuple[FileChange, ...]
    left_out: tuple[str, ...]
    sizes: Mapping[str, int]

    def contents(self) -> dict[str, bytes]:
        """The bytes of all of them, before and after, by their SHA-256."""
        return changed_files.stored(self.changes, self.sizes, MOST_BYTES)


def of(run: Run) -> Patch:
    """Against the folder as the history of the run began with it, for a fork too. Raises NoPatch."""
    found = portable(run)
    diff = patch(found.changes, found.contents())
    if not diff and not found.left_out:
        raise NoPatch(NOTHING_CHANGED)
    return Patch(_header(run, found.left_out), diff, found.left_out)


def portable(run: Run) -> Portable:
    """What a result can carry elsewhere. Raises NoPatch."""
    try:
        changes, unknown = changed_files.since_the_start(run)
    except KeyError:
        raise NoPatch(PRUNED) from None
    names = {name for one in changes for name in changed_files.hashes(one)}
    sizes = dict(Blob.objects.filter(pk__in=names).values_list("sha256", "size"))
    if (total := sum(sizes.values())) > MOST_BYTES:
        held = f"The changed files hold {total:,} bytes before and after, more than the {MOST_BYTES:,} of a patch"
        raise NoPatch(f"{held}: take them from the run's folder.")
    within = tuple(one for one in changes if _is_kept(one, sizes))
    return Portable(within, tuple(_left_out(changes, within, unknown)), sizes)


def download(run: Run) -> dict[str, str]:
    """The headers of an answer that holds one: a browser saves it, whatever it holds."""
    return {
        "Content-Type": "text/x-patch; charset=utf-8",
        "Content-Disposition": f'attachment; filename="run-{str(run.pk)[:8]}.patch"',
        "X-Content-Type-Options": "nosniff",
    }


def _is_kept(one: FileChange, sizes: Mapping[str, int]) -> bool:
    return fits(one.before) and fits(one.after) and all(name in sizes for name in changed_files.hashes(one))


def _left_out(changes: Sequence[FileChange], within: Sequence[FileChange], unknown: Sequence[Undo]) -> Iterator[str]:
    kept = {one.path for one in within}
    for file in changed_files.described([one for one in changes if one.path not in kept]):
        yield printable(f"{file.path}: {file.note or 'Its contents are not stored any more.'}")
    for undo in unknown:
        yield printable(f"{undo.summary}: what it changed was not recorded")


def author(run: Run) -> tuple[str, str]:
    """The agent that a commit of the result names, and an address that nobody reads."""
    return name_of(run.agent.name), no_reply()


def name_of(text: str) -> str:
    """Somebody's, as it stands before an address."""
    return one_line(text).translate(_NO_ADDRESS).strip(" .,:;'") or "agent"


def no_reply() -> str:
    return f"agentops@{urlsplit(settings.BASE_URL).hostname or 'localhost'}"


def subject(run: Run) -> str:
    return one_line(run.task.title)[:SUBJECT_CHARS]


def link(run: Run) -> str:
    """Where its record is shown."""
    return f"{settings.BASE_URL.rstrip('/')}{reverse('run', args=[run.pk])}"


def message_body(run: Run, left_out: Sequence[str], what: str) -> list[str]:
    """Below the subject. Each line begins with words of ours or with a space."""
    record = ProvenanceRecord.objects.filter(run=run).first()
    return [
        *([f"Not in this {what}:", *(f"  {one_line(line)}" for line in left_out), ""] if left_out else []),
        f"AgentOps-Run: {link(run)}",
        *([f"AgentOps-Record: {bytes(record.hash).hex()}"] if record else []),
    ]


def _header(run: Run, left_out: Sequence[str]) -> bytes:
    """Nothing in it can be taken for the patch: ``message_body``."""
    lines = [
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001",  # as git-format-patch begins
        f"From: {formataddr(author(run))}",
        f"Date: {format_datetime(run.completed_at or timezone.now())}",
        f"Subject: {Header(subject(run), 'utf-8', header_name='Subject').encode()}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
        "",
        *message_body(run, left_out, "patch"),
        "---",
        "",
    ]
    return "\n".join(lines).encode()


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))
