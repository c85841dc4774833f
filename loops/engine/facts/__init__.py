"""Facts: what happened, in the past tense. The journal is a sequence of these and nothing else (architecture#journal).

``at`` is microseconds since the epoch, stamped by the driver: the engine itself has no clock. ``HEAVY`` names fields
that may be long; the journal moves them to blobs, and the fold never needs them to *decide* (SPEC J7).

One module for each ability; what its facts mean lies in ``loops.engine.ABILITY.reducers``.
"""

from __future__ import annotations

from collections.abc import Mapping

from loops.engine.facts.confidence import *
from loops.engine.facts.context_window import *
from loops.engine.facts.fact import Fact as Fact
from loops.engine.facts.failures import *
from loops.engine.facts.forks import *
from loops.engine.facts.limits import *
from loops.engine.facts.loop_detection import *
from loops.engine.facts.model_calls import *
from loops.engine.facts.people import *
from loops.engine.facts.permissions import *
from loops.engine.facts.rollback import *
from loops.engine.facts.run import *
from loops.engine.facts.tool_calls import *
from loops.engine.facts.verification import *
from loops.engine.state.check import Check as Check

KINDS: Mapping[str, type[Fact]] = {kind.__name__: kind for kind in Fact.__subclasses__()}
"""By the name under which the journal keeps them."""
