"""The tool access service: the only way from an agent to a tool (SPEC I1 to I3, I7).

``judge`` says allow, ask or deny with reasons and runs nothing. ``subject`` recomputes, right before dispatch, what an
approval must match. ``execute`` judges again, so that nothing denied or malformed can run by being called directly.
One file: it is one port, and none of its doors may forget what the others check.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

from loops import masking
from loops.engine.ports import CallContext, Judgement, OnOutput, Verified
from loops.engine.state.remark import Remark
from loops.engine.text.truncation import quoted, shortened
from loops.engine.values import (
    Access,
    Compensation,
    FailureKind,
    Json,
    Reversibility,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from loops.tools import command_inputs, reviewed_files, rollback, seals, snapshots
from loops.tools.alternatives import alternatives
from loops.tools.approval_subject import VARIABLES, build_subject, changed_scripts, environment_sha256, touched
from loops.tools.canonical import canonical, digest, problems
from loops.tools.diffs import DiffError
from loops.tools.execution import perform
from loops.tools.fence import Fence
from loops.tools.limits import Limits
from loops.tools.output import SaveBlob, clean_text
from loops.tools.policy import AccessRule, Verdict, evaluate, may_ask
from loops.tools.registry import (
    ArgumentError,
    ReadBlob,
    Registered,
    StoredBlobs,
    ToolRegistry,
    ToolRun,
    nothing_stored,
)
from loops.tools.rollback import NO_WAY, why_lasting
from loops.tools.sandbox.capability import FILES_ONLY, FULL, NOTHING, SandboxLevel
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.sandbox.workspace_guard.protected_files import tidy
from loops.tools.seals import NotSealed, Seal
from loops.tools.workspace import Workspace
from loops.tools.workspace_roots import Folders

OnAudit = Callable[[Mapping[str, Json]], None]
_REMEMBERED = 1_024
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class ToolGateway:
    """Implements ``loops.engine.ports.Tools``.

    ``rules`` and ``policy_version`` are one snapshot of the matrix; build a new service when it changes.
    ``limits`` may be exchanged: what approvals bound stays, and a command under way keeps what it began with.
    ``agent_type`` decides which tools ``specs`` lists; a call is judged by its own context's agent type.
    ``on_audit`` gets one event (JSON) for each judgement and each execution; it must not raise. ``read_blob`` and
    ``stored_blobs`` read what ``save_blob`` kept (for undoing); ``folders`` says which workspaces may be used.
    """

    def __init__(  # noqa: PLR0913  # wired in one place, by keyword
        self,
        registry: ToolRegistry,
        rules: Sequence[AccessRule],
        policy_version: str,
        sandbox_level: SandboxLevel,
        *,
        save_blob: SaveBlob,
        limits: Limits | None = None,
        agent_type: str = "",
        on_audit: OnAudit = lambda event: None,
        read_blob: ReadBlob = nothing_stored,
        stored_blobs: StoredBlobs = lambda names: (),
        folders: Folders | None = None,
    ) -> None:
        self._registry = registry
        self._rules, self._policy_version = tuple(rules), policy_version
        self._sandbox = sandbox_level
        self._save_blob = save_blob
        self.limits = limits or Limits()
        self._agent_type, self._on_audit = agent_type, on_audit
        self._read_blob, self._stored_blobs, self._folders = read_blob, stored_blobs, folders or Folders()
        self._bound: OrderedDict[tuple[str, int, str], dict[str, Json]] = OrderedDict()

    def specs(self) -> list[ToolSpec]:
        """Tools this agent may at least ask for, in order of name."""
        return [
            spec
            for spec in self._registry.specs()
            if self._offered(spec.name) and may_ask(self._rules, spec, self._agent_type)
        ]

    async def judge(self, call: ToolCall, context: CallContext) -> Judgement:
        """Validate, look up the matrix, bind, show. Runs nothing, changes nothing."""
        judgement = self._judge(call, context)
        self._audit("judged", call, context, access=judgement.access, reasons=list(judgement.reasons))
        return judgement

    def access_of(self, call: ToolCall, context: CallContext, agent_type: str) -> Access:
        """What an agent of another type would be told of this very call; nothing is recorded of it."""
        return self._judge(call, replace(context, agent_type=agent_type)).access

    def subject(self, call: ToolCall, context: CallContext) -> dict[str, Json]:
        """The binding as it is now. Compare with the approved one immediately before ``execute``.

        From then on ``execute`` runs the script bytes of exactly this subject, or refuses. Empty for a call that is
        not well formed or may not run at all.
        """
        found = self._found(call, context)
        if found is None or self._malformed(call, found):
            return {}
        with suppress(ArgumentError, PathRefused, OSError), self._workspace(context) as workspace:
            subject = self._subject(call, context, found, workspace)
            self._remember(call, context, subject)
            return subject
        return {}

    async def execute(self, call: ToolCall, context: CallContext, on_output: OnOutput) -> ToolResult:
        """Run one judged call. A tool's own failure is a result with ok False; cancelling kills its whole tree."""
        result = await self._perform(call, context, on_output)
        ended: dict[str, Json] = {"error": result.error, "exit_code": result.exit_code}
        planted = {name: result.data[name] for name in ("restored", "taken") if "taken" in result.data}
        self._audit("executed", call, context, ok=result.ok, duration_ms=result.duration_ms, **ended, **planted)
        return result

    async def look(self, call: ToolCall, context: CallContext) -> dict[str, Json]:
        """SHA-256 of what stands where the call writes, by path; empty for a call that writes no files by name."""
        found = self._registry.get(call.name)
        if found is None or found.tool.spec.reversibility is Reversibility.PURE or self._malformed(call, found):
            return {}
        try:
            with self._workspace(context) as workspace:
                operands = found.tool.operands(call.arguments, self._run(context, workspace))
                return {relative(path): workspace.hash(path) for path in operands.writes}
        except (ArgumentError, PathRefused, OSError):
            return {}

    def obeyed(self, context: CallContext) -> str:
        """SHA-256 over all that a command would obey now; "" where that cannot be told whole."""
        with suppress(PathRefused, OSError), self._workspace(context) as workspace:
            stands = command_inputs.whole(workspace)
            return digest([stands, dict(context.environment)]) if stands and context.environment else stands
        return ""

    def stands(self, context: CallContext) -> dict[str, Json]:
        """The whole workspace by the name of its tree, whose listings are kept, or why it has none."""
        try:
            with self._workspace(context) as workspace:
                return {"tree": snapshots.keep_listings(self._run(context, workspace), snapshots.take(workspace))}
        except (PathRefused, OSError, snapshots.TooLarge) as error:
            return {"why_not": clean_text(str(error))}

    async def verify(self, call: ToolCall, context: CallContext) -> Verified:
        """Ask the world whether an interrupted call took effect."""
        found = self._found(call, context)
        if found is None or self._malformed(call, found):
            return Verified.NOT_DONE
        try:
            with self._workspace(context) as workspace:
                return found.tool.verify(call.arguments, self._run(context, workspace))
        except (ArgumentError, PathRefused, OSError):
            return Verified.UNKNOWN

    async def plan_undo(self, call: ToolCall, context: CallContext) -> Compensation | None:
        """How this call will be undone; None for one that changes nothing (SPEC O2)."""
        found = self._found(call, context)
        if found is None or found.tool.spec.reversibility is Reversibility.PURE:
            return None
        if found.tool.undo is None:
            return Compensation(why_not=NO_WAY)
        try:
            with self._workspace(context) as workspace:
                planned = found.tool.undo(call.arguments, self._run(context, workspace))
            undoing = self._registry.get(planned.tool)
            return replace(planned, repeatable=undoing is not None and undoing.tool.spec.retriable)
        except (Exception, SystemExit) as error:  # of others' tools too: not to be undone is no reason not to run
            return Compensation(why_not=clean_text(f"how to undo it could not be recorded: {error}"))

    async def learn_undo(self, call: ToolCall, context: CallContext, planned: Compensation) -> Compensation | None:
        """What the call really changed, for tools that only the world can tell it of."""
        found = self._found(call, context)
        if found is None or found.tool.learn is None or not planned.tool:
            return None
        try:
            with self._workspace(context) as workspace:
                return found.tool.learn(call.arguments, self._run(context, workspace), planned)
        except (Exception, SystemExit) as error:
            return Compensation(why_not=clean_text(f"what it changed could not be recorded: {error}"))

    def changed_otherwise(self, context: CallContext, start: str, recorded: Mapping[str, str]) -> Compensation | None:
        """What is neither as in the kept snapshot ``start`` nor as ``recorded`` says. The bytes of it are kept."""
        with suppress(PathRefused, OSError, KeyError, snapshots.TooLarge), self._workspace(context) as workspace:
            return rollback.changed_otherwise(self._run(context, workspace), start, recorded)
        return None

    async def remarks(
        self, context: CallContext, changes: Mapping[str, tuple[str, str]], goal: str
    ) -> tuple[Remark, ...]:
        """What a reviewer should know of ``changes``, by the bytes that were kept of them."""
        read = reviewed_files.changed(changes, self._read_blob)
        with suppress(PathRefused, OSError), self._workspace(context) as workspace:
            tests = reviewed_files.other_tests(workspace, changes)
            read = replace(read, tests=tests, scripts=reviewed_files.files_of_scripts(workspace, read.changes))
        return await asyncio.to_thread(reviewed_files.looked_at, read, context.criteria, goal)

    def seal(self, context: CallContext, start: str, leftovers: Set[str]) -> Seal:
        """What checks in a checkout are to find as the kept snapshot ``start`` has it. Raises NotSealed."""
        try:
            with self._workspace(context) as workspace:
                return seals.seal(self._run(context, workspace), start, context.criteria, leftovers)
        except (PathRefused, OSError) as error:
            raise NotSealed(clean_text(str(error))) from error

    def snapshot(self, context: CallContext) -> str:
        """Keep the workspace as it is; SHA-256 of the blob that lists it, "" where it cannot be kept (SPEC O3)."""
        with suppress(PathRefused, OSError, snapshots.TooLarge), self._workspace(context) as workspace:
            return snapshots.keep(self._run(context, workspace), snapshots.take(workspace))
        return ""

    def _found(self, call: ToolCall, context: CallContext) -> Registered | None:
        """The tool by its exact name. What only an undoing may call does not exist for anybody else."""
        found = self._registry.get(call.name)
        return None if found is not None and found.tool.internal and not context.undoes else found

    def _judge(self, call: ToolCall, context: CallContext) -> Judgement:
        found = self._found(call, context)
        if found is None:
            names = ", ".join(spec.name for spec in self.specs())
            reason = f"unknown tool {quoted(clean_text(call.name), 80)}; the tools are: {names}"
            return self._denied(call, reason, invalid=True)
        if reasons := self._malformed(call, found):
            return self._denied(call, *reasons, invalid=True)
        try:
            with self._workspace(context) as workspace:
                return self._weigh(call, context, found, workspace)
        except (ArgumentError, DiffError) as error:
            return self._denied(call, clean_text(str(error)), invalid=True)
        except PathRefused as error:
            return self._denied(call, str(error), risk="high" if error.escape else "medium")
        except OSError as error:
            return self._denied(call, f"{error.strerror}: {error.filename}", invalid=isinstance(error, _MISSING))

    def _weigh(self, call: ToolCall, context: CallContext, found: Registered, workspace: Workspace) -> Judgement:
        spec = found.tool.spec
        run = self._run(context, workspace)
        verdicts = self._verdicts(call, context, found, run)
        lasting = why_lasting(call, found, run)
        if lasting:
            verdicts.append(Verdict(Access.ASK, f"it cannot be undone: {lasting}"))
        access = max((verdict.access for verdict in verdicts), key=list(Access).index)
        if access is Access.DENY:
            return self._deny(call, context, found, run, verdicts)
        reversibility = Reversibility.IRREVERSIBLE if lasting else spec.reversibility
        irreversible = reversibility is Reversibility.IRREVERSIBLE
        shown: dict[str, Json] = {"reversibility": reversibility.value} if lasting else {}
        subject = self._subject(call, context, found, workspace, binds=access is Access.ASK)
        if access is Access.ASK:
            self._remember(call, context, subject)
        return Judgement(
            call_id=call.id,
            access=access,
            reasons=tuple(verdict.reason for verdict in verdicts if verdict.access is access),
            gate_kind="" if access is not Access.ASK else "irreversible_action" if irreversible else "tool_approval",
            risk=spec.danger.value,
            policy_version=self._policy_version,
            subject=subject,
            reversibility=reversibility.value,
            view={**found.tool.preview(call.arguments, run), **shown, **command_inputs.shown(subject)},
            operation=spec.operation,
            deed=spec.deed,
        )

    def _deny(
        self, call: ToolCall, context: CallContext, found: Registered, run: ToolRun, verdicts: Sequence[Verdict]
    ) -> Judgement:
        """What else there is, and, where only the matrix says no, what a person would grant (SPEC I4)."""
        spec = found.tool.spec
        denied = [verdict for verdict in verdicts if verdict.access is Access.DENY]
        paths = touched(found.tool.operands(call.arguments, run))
        other = alternatives(self.specs(), self._rules, spec, context.agent_type, paths)
        reasons = (verdict.reason for verdict in denied)
        declared = {"risk": spec.danger.value, "operation": spec.operation, "deed": spec.deed}
        refusal = self._denied(call, *reasons, alternatives=other, **declared)
        if denied != [verdicts[0]] or spec.loop_breaking:
            return refusal
        try:
            subject = self._subject(call, context, found, run.workspace)
            view = {**found.tool.preview(call.arguments, run), **command_inputs.shown(subject)}
        except (ArgumentError, DiffError, PathRefused, OSError):  # what lies there is not for whoever may not touch it
            return refusal
        self._remember(call, context, subject)
        return replace(refusal, subject=subject, view=view, grantable=True)

    def _verdicts(self, call: ToolCall, context: CallContext, found: Registered, run: ToolRun) -> list[Verdict]:
        """Every opinion on a well-formed call: the matrix and the sandbox; paths that are refused raise."""
        operands = found.tool.operands(call.arguments, run)
        for path in operands.reads:
            run.workspace.check_read(path)
        for path in operands.writes:
            run.workspace.check_write(path)
        if found.tool.internal:
            return [Verdict(Access.ALLOW, "a person ordered the rollback")]
        verdicts = [
            evaluate(self._rules, found.tool.spec, context.agent_type, paths=touched(operands), hosts=operands.hosts)
        ]
        if context.grant and verdicts[0].access is Access.DENY:
            verdicts = [Verdict(Access.ALLOW, "a person granted this one call")]
        level = self._sandbox.level
        if found.tool.is_command and level <= FILES_ONLY:
            verdicts.append(Verdict(Access.DENY, f"commands are refused: {self._sandbox.warning}"))
        elif found.tool.is_command and level < FULL:
            verdicts.append(Verdict(Access.ASK, f"the sandbox is weak: {self._sandbox.warning}"))
        elif level <= NOTHING and not found.tool.spec.loop_breaking:
            verdicts.append(Verdict(Access.DENY, self._sandbox.warning))
        return verdicts

    def _malformed(self, call: ToolCall, found: Registered) -> list[str]:
        if call.error:
            return [shortened(clean_text(call.error), 500)]
        if not found.tool.internal and (held := masking.signs_in(masking.known().value(call.arguments))):
            return [masking.REFUSED.format(names=", ".join(held))]
        if reasons := problems(call.arguments, self.limits.arguments_depth):
            return [clean_text(reason) for reason in reasons]
        size = len(canonical(call.arguments))
        if size > self.limits.arguments_bytes and not found.tool.internal:
            return [f"the arguments have {size} bytes; the limit is {self.limits.arguments_bytes}"]
        return found.validator.errors(call.arguments)

    async def _perform(self, call: ToolCall, context: CallContext, on_output: OnOutput) -> ToolResult:
        """In the folder in which the call was looked at once more: it is opened once for both."""
        found = self._found(call, context)
        if found is None:
            return _failed(f"unknown tool {quoted(clean_text(call.name), 80)}")
        if found.tool.spec.loop_breaking:
            return _failed(f"{call.name} ends the step and is not executed")
        if reasons := self._malformed(call, found):
            return _failed("; ".join(reasons))
        try:
            opened = self._workspace(context)
        except (PathRefused, OSError) as error:
            return _failed(error)
        with opened as workspace:
            run = self._run(context, workspace, on_output)
            if refusal := self._refusal(call, context, found, run):
                return refusal
            return await perform(found.tool, call.arguments, run, self._bound.pop(_key(call, context), None))

    def _refusal(self, call: ToolCall, context: CallContext, found: Registered, run: ToolRun) -> ToolResult | None:
        """Why this call may not run even if somebody asks; None when it may (after its gate, where it has one)."""
        try:
            verdicts = self._verdicts(call, context, found, run)
            denied = [verdict.reason for verdict in verdicts if verdict.access is Access.DENY]
            return _failed("denied: " + "; ".join(denied)) if denied else self._changed(call, context, found, run)
        except (ArgumentError, PathRefused, OSError) as error:
            return _failed(error)

    def _changed(self, call: ToolCall, context: CallContext, found: Registered, run: ToolRun) -> ToolResult | None:
        bound = self._bound.get(_key(call, context))
        if bound is None:
            return None
        scripts = changed_scripts(bound, found.tool.operands(call.arguments, run).scripts, run.workspace)
        others = [] if bound["environment_sha256"] == environment_sha256(context) else [VARIABLES]
        if not (changed := scripts or command_inputs.changed(bound, run) or others):
            return None
        return _failed(f"changed since it was approved: {', '.join(changed)}; ask again", FailureKind.CRITICAL)

    def _subject(
        self, call: ToolCall, context: CallContext, found: Registered, workspace: Workspace, *, binds: bool = True
    ) -> dict[str, Json]:
        run = self._run(context, workspace)
        operands = found.tool.operands(call.arguments, run)
        policy, level = self._policy_version, self._sandbox.level
        subject = build_subject(call, context, found, operands, workspace, policy_version=policy, sandbox_level=level)
        return subject | command_inputs.binding(run) if binds and found.tool.is_command else subject

    def _remember(self, call: ToolCall, context: CallContext, subject: dict[str, Json]) -> None:
        self._bound[_key(call, context)] = subject
        while len(self._bound) > _REMEMBERED:
            self._bound.popitem(last=False)

    def _workspace(self, context: CallContext) -> Workspace:
        made, fence = self._folders.is_made(context.workspace), Fence(context.lease_ends)
        records = self._folders.records
        workspace = Workspace(context.workspace, self.limits, fence, made=made, records=records)
        tidy(workspace.beneath)
        return workspace

    def _run(self, context: CallContext, workspace: Workspace, on_output: OnOutput = lambda s, c: None) -> ToolRun:
        read, stored, save = self._read_blob, self._stored_blobs, self._save_blob
        limits, sandbox = self.limits, self._sandbox
        return ToolRun(context, workspace, limits, sandbox, save, on_output, read_blob=read, stored_blobs=stored)

    def _offered(self, name: str) -> bool:
        """Is it a tool for agents, and does the sandbox hold what it needs?"""
        found = self._registry.get(name)
        if found is None or found.tool.internal:
            return False
        return not (found.tool.is_command and self._sandbox.level <= FILES_ONLY)

    def _denied(self, call: ToolCall, *reasons: str, **more: Any) -> Judgement:
        return Judgement(call.id, Access.DENY, reasons, policy_version=self._policy_version, **more)

    def _audit(self, what: str, call: ToolCall, context: CallContext, **more: Json) -> None:
        event: dict[str, Json] = {
            "event": f"tool.{what}",
            "run": context.run_id,
            "step": context.step,
            "call_id": call.id,
            "tool": shortened(clean_text(call.name), 80),
            "agent_type": context.agent_type,
            "policy_version": self._policy_version,
            "sandbox_level": self._sandbox.level,
        }
        self._on_audit(event | more)


def _key(call: ToolCall, context: CallContext) -> tuple[str, int, str]:
    return (context.run_id, context.step, call.id)


def _failed(error: str | Exception, kind: FailureKind = FailureKind.SYSTEMATIC) -> ToolResult:
    kind = FailureKind.CRITICAL if getattr(error, "escape", False) else kind
    return ToolResult(ok=False, content=f"error: {error}", error=str(error), kind=kind)
