"""What the model is told of an approach that was given up (SPEC E3): made of facts alone, the same for the same facts.

What tools said stands in it as quoted JSON strings: a text can't end its own quotation and speak as the loop.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from loops.engine import prompts
from loops.engine.encoding.canonical import encode
from loops.engine.encoding.codec import to_plain
from loops.engine.state.recovery import Attempt
from loops.engine.values import ToolCall

ARGUMENTS_SHOWN = 300
OUTCOME_SHOWN = 400
FILES_SHOWN = 20
CUT_HERE = prompts.TODAY.templates["given_up"].beginning
"""How a summary begins; pages know it by this."""


def quoted(text: str, longest: int = OUTCOME_SHOWN) -> str:
    """``text`` as one JSON string of at most about ``longest`` characters: its beginning and its end."""
    half = longest // 2
    short = text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"
    return json.dumps(short)


def arguments_of(call: ToolCall) -> str:
    """The arguments of a call, cut for showing; canonical, so that the same arguments read the same."""
    text = encode(to_plain(call.arguments)).decode()
    return text if len(text) <= ARGUMENTS_SHOWN else f"{text[:ARGUMENTS_SHOWN]}…"


def files_of(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Paths that the calls changed, each once."""
    return tuple(dict.fromkeys(path for attempt in attempts for path in attempt.files))


def line_of(attempts: Sequence[Attempt]) -> str:
    """The approach in one line, for reports."""
    tools = ", ".join(dict.fromkeys(attempt.tool for attempt in attempts if not attempt.ok))
    last = next((attempt for attempt in reversed(attempts) if not attempt.ok), None)
    where = _steps(attempts[0].step, attempts[-1].step) if attempts else "no steps"
    return f"{where}: {tools or 'nothing'}; last {last.outcome if last else 'nothing'}"


def summary_of(attempts: Sequence[Attempt], from_step: int, to_step: int, reason: str) -> str:
    """What stands in place of the steps from ``from_step`` to ``to_step``."""
    tried = [f"- step {one.step}: {one.tool} {one.arguments} failed: {one.outcome}" for one in attempts if not one.ok]
    if worked := [one for one in attempts if one.ok]:
        tried.append(prompts.fill("given_up_worked"))
        tried += [f"- step {one.step}: {one.tool} {one.arguments}" for one in worked]
    if files := files_of(attempts):
        more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
        tried.append(prompts.fill("given_up_files", files=f"{json.dumps(files[:FILES_SHOWN])}{more}"))
    listed = "".join(f"\n{line}" for line in tried)
    return prompts.fill("given_up", steps=_steps(from_step, to_step), why=reason, tried=listed)


def last_step(text: str) -> int:
    """The last step that a summary stands for; 0 for any other text."""
    if not text.startswith(CUT_HERE):
        return 0
    named = [word for word in text[len(CUT_HERE) :].partition(",")[0].split() if word.isdecimal()]
    return int(named[-1]) if named else 0


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"
