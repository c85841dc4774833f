"""Which ceiling of the sandbox a command met, read off its last words: the kernel only says no (SPEC I7, X5). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loops.engine.text.failure_words import is_disk_full
from loops.tools.limits import MIB, Limits

READ_OF_ERRORS = 16 * 1024
"""Bytes at the end of an output: there stands why a program gave up."""
_MEMORY = re.compile(rb"Cannot allocate memory|MemoryError|std::bad_alloc|[Oo]ut of memory|ENOMEM")
_PROCESSES = re.compile(
    rb"Resource temporarily unavailable|can't start new thread|[Cc]annot fork|EAGAIN|pthread_create"
)
_FILES = re.compile(rb"Too many open files|EMFILE")


def says_full(*outputs: bytes) -> bool:
    """Did a command say that it had no room to write?"""
    return is_disk_full(_last_words(outputs).decode("utf-8", "replace"))


def met(limits: Limits, *outputs: bytes) -> list[str]:
    """In words, which of ``limits`` a command that failed with these outputs may have met; empty for none."""
    tail = _last_words(outputs)
    said = (
        (_MEMORY.search(tail), f"{limits.address_space_bytes // MIB:,} MiB of address space for each process"),
        (_PROCESSES.search(tail), f"{limits.processes:,} processes and threads at a time"),
        (_FILES.search(tail), f"{limits.open_files:,} open files for each process"),
        (says_full(*outputs), f"{limits.tmp_bytes // MIB:,} MiB in $TMPDIR"),
    )
    return [words for found, words in said if found]


def _last_words(outputs: Sequence[bytes]) -> bytes:
    return b"\n".join(output[-READ_OF_ERRORS:] for output in outputs)
