"""What the clock does with the installation itself."""

import logging
from typing import Any

from celery import shared_task

log = logging.getLogger(__name__)


@shared_task(name="agentops.prune")
def prune(**_: Any) -> int:
    """Once a day: let go of what projects keep no longer. Without the owner's login it is left to `manage.py prune`."""
    from agentops.ops import pruning
    from loops.services import retention

    if not retention.keeping():
        return 0
    if not pruning.may_prune():
        log.warning("retention is on, but only the owner of the database may prune: see `manage.py doctor`")
        return 0
    done = pruning.prune(say=log.info)
    log.info("retention: %s runs went, %s bytes; %s more are marked", done.runs, done.bytes, done.marked)
    return done.bytes


@shared_task(name="agentops.anchor")
def anchor(**_: Any) -> bool:
    """Seal what was written since the last time and anchor it outside the database."""
    from agentops.evidence import rounds, seals

    try:
        return rounds.keep()
    except seals.Busy:
        return False
