"""Snapshots that tests compare with, as runners record them: what is gone, or other than before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loops.engine.state.remark import Remark
from loops.engine.text.truncation import quoted
from loops.tools.suspicion.changes import Change, whole_text

NAMED = 80
_ENTRY = re.compile(r"^exports\[`((?:[^`\\]|\\.)*+)`\] = `((?:[^`\\]|\\.)*+)`;", re.MULTILINE | re.DOTALL)


def remarks(changes: Sequence[Change]) -> Iterator[Remark]:
    for one in changes:
        if one.is_recorded and one.before is not None:
            before, after = (dict(_ENTRY.findall(whole_text(data))) for data in (one.before, one.after))
            yield from _compared(one, before, after)


def _compared(one: Change, before: dict[str, str], after: dict[str, str]) -> Iterator[Remark]:
    gone = [name for name in before if name not in after]
    if gone or (one.after is None and not before):
        text = f"{len(gone) or 'All'} recorded values are gone: tests record them anew, whatever they are by then."
        yield Remark("checks_removed", one.path, text)
    if other := [name for name, value in before.items() if after.get(name, value) != value]:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        text = f"What {quoted(other[0], NAMED)}{more} compares with is another value than it was."
        yield Remark("expectation_changed", one.path, text)
