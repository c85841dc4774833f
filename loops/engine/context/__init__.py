"""The conversation as the model sees it: a fold of the same facts, kept apart from the state (SPEC U1).

``turns`` hold the messages, ``transcript`` is the conversation as a value and the few ways to change it, ``telling``
says what each kind of fact adds to it, and ``pruning`` makes it shorter when it would no longer fit the model's window.
"""

from __future__ import annotations

from loops.engine.context.telling import extend as extend
from loops.engine.context.telling import tool_content as tool_content
from loops.engine.context.transcript import Transcript as Transcript
