"""Measure the acceptance criteria: of a proposed result (SPEC C6, L1, L2), and before the work begins (ADR 0064)."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath

from loops.driver import workspace_changes
from loops.driver.checkout_runs import Asked
from loops.driver.clearance import Clearance, call_of
from loops.driver.interrupts import STOP_OR_PAUSE, Interrupts
from loops.driver.proofs import Proofs
from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine.rollback import plan as rb
from loops.engine.rollback.result import checks_of_these_files, left_behind, with_forked
from loops.engine.state.check import CheckStatus
from loops.engine.state.evidence import Evidence
from loops.engine.state.remark import Remark
from loops.engine.state.run import RunState
from loops.engine.state.spec import Criterion
from loops.engine.text.missing_modules import ENDINGS, MissingModule, missing_module, module_in
from loops.engine.values import ToolCall, ToolResult
from loops.engine.verification import proof, report, trial
from loops.engine.verification.checks import check_schema, passed, unproven
from loops.engine.verification.environment import ABSENT, Obstacle, obstacle

DETAIL_CHARS = 4000
_WORD = re.compile(r"[\w@./`'\"-]+")
_KINDS = frozenset({"module", "package"})
MeasureOne = Callable[[Criterion, ToolCall], Awaitable[f.Check]]
_REVIEW = ToolCall("review", rb.RESTORE)
SCHEMA_S = 60.0
"""The judgement has a budget of its own; this is for a machine with a lot to do."""


async def run_checks(session: RunSession, calls: ToolCalls, interrupts: Interrupts) -> e.OpenGate | None:
    """The schema first, because it is cheap and hard; then every command, in the sandbox.

    The commands are the operator's own words, given with the task. Where commands are asked about and the run changed
    what one could obey, a person is asked (ADR 0052): the question is given back, and nothing was measured. All may be
    begun again: a question, a stop, a pause or a crash in between starts the checks afresh.
    """
    spec = session.state.spec
    clearing = Clearance(session, calls)
    workspace_changes.note(session, calls)
    session.note(f.ChecksStarted(count=len(spec.criteria)))
    session.flush()
    checks: list[f.Check] = []
    schema = None
    if spec.output_schema is not None:  # in a thread: what a person says is heard meanwhile
        judging = asyncio.to_thread(check_schema, spec, session.state.result or "")
        schema = await interrupts.interruptible(judging, STOP_OR_PAUSE, what="output schema", within_s=SCHEMA_S)
    if schema is not None:
        checks.append(schema)
    if schema is None or schema.status == CheckStatus.PASSED:
        measured = await _proved(session, calls, clearing, interrupts)
        workspace_changes.note(session, calls)
        if isinstance(measured, e.OpenGate):
            return measured
        checks += measured
    judged = (*checks, *unproven(spec))
    remarks = await _remarks(session, calls, interrupts) if passed(judged) else ()
    session.note(f.ChecksCompleted(checks=judged, found=clearing.found, left=clearing.left, remarks=remarks))
    return None


async def _remarks(session: RunSession, calls: ToolCalls, interrupts: Interrupts) -> tuple[Remark, ...]:
    """What a reviewer should know of all that the run changed; once, and kept with the checks."""
    session.flush()
    changes, _ = left_behind(session.ports.journal.history(rb.LEDGER))
    if not changes:
        return ()
    states = {one.path: (one.before, one.after) for one in changes}
    looking = session.ports.tools.remarks(calls.context(_REVIEW), states, session.state.spec.goal)
    return await interrupts.interruptible(looking, STOP_OR_PAUSE, what="changed files", within_s=SCHEMA_S)


async def try_criteria(session: RunSession, calls: ToolCalls) -> None:
    """Before the first request: every command that may run without a question, as ``run_checks`` does it (ADR 0064)."""
    clearing = Clearance(session, calls, asks=False)
    session.note(f.ChecksStarted(count=len(session.state.spec.criteria)))
    session.flush()
    checks = await _measured(session, clearing, _as_left(session, calls))
    assert not isinstance(checks, e.OpenGate), "this clearance asks nothing"
    workspace_changes.note(session, calls)
    summary = trial.summary(checks, session.state)
    session.note(f.CriteriaTried(checks=tuple(checks), summary=summary, found=clearing.found, left=clearing.left))


async def _proved(
    session: RunSession, calls: ToolCalls, clearing: Clearance, interrupts: Interrupts
) -> list[f.Check] | e.OpenGate:
    """A check of each command in a clean checkout, and in the folder where that is needed."""
    history = with_forked(session.ports.journal.history(("RunStarted", *report.COMPARED, *rb.LEDGER)))
    earlier = [fact for fact in history if type(fact).__name__ in report.COMPARED]
    of_these_files = checks_of_these_files(history)
    proofs = Proofs(session, calls, interrupts, lambda criterion, result: _check(session, criterion, result))

    async def check(criterion: Criterion, call: ToolCall) -> f.Check:
        command = criterion.command
        tests = report.first_report(earlier, command)
        context = dataclasses.replace(calls.context(call), is_criterion=True, tests_before=tests)
        asked = Asked(
            criterion,
            call,
            context,
            held_before=proof.held_before(earlier, command),
            failed_on_same_files=proof.failed_in(of_these_files, command),
            seen_at_start=report.seen_at_start(earlier, command),
        )
        return await proofs.check(asked)

    try:
        measured = await _measured(session, clearing, check, proofs.begin)
        return measured if isinstance(measured, e.OpenGate) else await proofs.doubted(measured)
    finally:
        await proofs.end()


def _as_left(session: RunSession, calls: ToolCalls) -> MeasureOne:
    """Before the work, the folder is as it was."""

    async def check(criterion: Criterion, call: ToolCall) -> f.Check:
        context = dataclasses.replace(calls.context(call), is_criterion=True)
        result = await calls.execute(call, context, STOP_OR_PAUSE)
        return check_of(criterion, result, trial.obstacle_before_work(result, session.state.spec, criterion))

    return check


async def _nothing() -> None:
    """There is nothing to do before the commands run."""


async def _measured(
    session: RunSession, clearing: Clearance, check: MeasureOne, begin: Callable[[], Awaitable[None]] = _nothing
) -> list[f.Check] | e.OpenGate:
    """A check of each command, or the question that comes before."""
    criteria = [*enumerate(criterion for criterion in session.state.spec.criteria if criterion.command)]
    if question := await clearing.settle(criteria):
        return question
    await begin()
    checks: list[f.Check] = []
    for number, criterion in criteria:
        match await clearing.refusal(number, criterion):
            case e.OpenGate() as question:
                return question
            case "":
                checks.append(await check(criterion, call_of(number, criterion)))
                clearing.ran()
            case why:
                checks.append(_refused(criterion, why))
    return checks


def _refused(criterion: Criterion, why: str) -> f.Check:
    said = f"It did not run: {why}"
    return f.Check(criterion.text, CheckStatus.UNPROVEN, criterion.command, said, evidence=Evidence.CLAIMED)


def _ends(text: str) -> str:
    """Its beginning, and more of its end: there commands say what failed."""
    if len(text) <= DETAIL_CHARS:
        return text
    first, last = DETAIL_CHARS // 4, DETAIL_CHARS - DETAIL_CHARS // 4
    return f"{text[:first]}\n[… {len(text) - DETAIL_CHARS} characters left out …]\n{text[-last:]}"


def _is_ours(state: RunState, command: str, missing: MissingModule, like: object) -> bool:
    """May the agent have to write this module, or its name? Not one that was missing before the latest repair as well.
    Else one whose name is a slip of that of a module of the work, and one that the task speaks of."""
    before = next((check.detail for check in state.failed_checks if check.command == command), "")
    if (known := missing_module(before)) is not None and known.name == missing.name:
        return False
    task = "\n".join((state.spec.goal, *(criterion.text for criterion in state.spec.criteria)))
    return bool(like) or _speaks_of(task, missing)


def _speaks_of(task: str, missing: MissingModule) -> bool:
    """By a file or folder of its name, in backticks, or beside "module" or "package"; the bare word may be anything."""
    words = _WORD.findall(task)
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        bare = word.strip("`'\".")
        if bare == missing.path and (word.startswith("`") or {before.lower(), after.lower()} & _KINDS):
            return True
        parts = PurePosixPath(bare)
        is_file = parts.suffix.removeprefix(".") in missing.form.endings and parts.stem == missing.path
        if is_file or ("/" in bare and missing.path in (*parts.parts[:-1], bare.rstrip("/"))):
            return True
    return False


def _is_of_the_run(session: RunSession, path: str) -> bool:
    """Did the run itself take away what is missing, or put a file of its name somewhere else?"""
    history = session.ports.journal.history(rb.LEDGER)
    changes, _ = left_behind(with_forked(history))
    return any(_removed(change, path) or _made(change, path) for change in changes)


def _removed(change: rb.FileChange, path: str) -> bool:
    """It, or a part of it, wherever it was."""
    if not change.before or change.after:
        return False
    parts, wanted = change.path.split("/"), path.split("/")
    runs = (parts[at : at + len(wanted)] for at in range(len(parts)))
    return any(run == wanted or [*run[:-1], module_in(run[-1], ENDINGS)] == wanted for run in runs)


def _made(change: rb.FileChange, path: str) -> bool:
    name = PurePosixPath(change.path).name
    return not change.before and bool(change.after) and PurePosixPath(path).name in (name, module_in(name, ENDINGS))


def _obstacle(session: RunSession, criterion: Criterion, result: ToolResult) -> Obstacle | None:
    absent = result.data.get(ABSENT)
    like = absent.get("like") if isinstance(absent, Mapping) else None
    found = obstacle(result, lambda missing: _is_ours(session.state, criterion.command, missing, like))
    return None if found is not None and found.path and _is_of_the_run(session, found.path) else found


def _check(session: RunSession, criterion: Criterion, result: ToolResult) -> f.Check:
    return check_of(criterion, result, _obstacle(session, criterion, result))


def check_of(criterion: Criterion, result: ToolResult, found: Obstacle | None) -> f.Check:
    status = CheckStatus.PASSED if result.ok else CheckStatus.FAILED if found is None else CheckStatus.ERROR
    said = "" if result.ok else _ends(f"{result.error}\n{result.content}".strip())
    detail = "\n".join(filter(None, [report.notes(result.data), said]))
    return f.Check(
        text=criterion.text,
        status=status,
        command=criterion.command,
        detail=detail,
        duration_ms=result.duration_ms,
        obstacle=found.code if found else "",
        wanted=f"{found.what} {found.todo}" if found else "",
        counts=trial.counted(result.data),
        report=str(result.data.get(report.REPORT) or ""),
    )
