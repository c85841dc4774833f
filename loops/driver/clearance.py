"""Whether the command of an acceptance criterion may run without anybody being asked (SPEC Q5, ADR 0052)."""

from __future__ import annotations

from collections.abc import Sequence

from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.state.clearance import Cleared, words_of
from loops.engine.state.spec import Criterion
from loops.engine.values import Access, ToolCall

AGAIN_AT_MOST = 3
"""Approvals of one verification that did not hold any more when they were to be used, before criteria stay unproven."""
CHANGED = "the run changed files that this command may execute or obey"
UNKNOWN = "an earlier run may have changed what this command executes or obeys, or it is too much to tell"
KEPT_CHANGING = "what it obeys changed each time after it was approved"
WOULD_ASK = "the access rules ask a person about commands here"
DENIED = "the access rules deny this command to the agent"
ASKED_SINCE = "commands are asked about since these checks began"
Numbered = Sequence[tuple[int, Criterion]]


def call_of(number: int, criterion: Criterion) -> ToolCall:
    """The command of the criterion with this number, as a call."""
    return ToolCall(id=f"check{number}", name="run_command", arguments={"command": criterion.command})


class Clearance:
    """Of one verification. Where commands are asked about, one runs unasked while the workspace is as the run found it,
    or as the same command left it when a person had approved that one. With ``asks`` false there is no question: what
    would be asked about, or is denied by the rules, does not run."""

    def __init__(self, session: RunSession, calls: ToolCalls, *, asks: bool = True) -> None:
        self._session, self._calls, self._asks = session, calls, asks
        self._asked_about: dict[int, str] = {}
        """Number of the criterion -> why its command does not run; "" where it may."""
        self.found = self.left = ""
        """Hash of the workspace before and after the commands; "" where nobody asks, or not all of it is known."""

    async def settle(self, criteria: Numbered) -> e.OpenGate | None:
        """Before anything runs: what a person is to be asked, or every approval is used up on what stands now."""
        due: list[tuple[int, Criterion, p.Judgement, Cleared]] = []
        for number, criterion in criteria:
            judgement = await self._calls.weigh(call_of(number, criterion))
            if judgement.access is Access.DENY and judgement.grantable and not self._asks:
                self._asked_about[number] = DENIED
            if judgement.access is not Access.ASK:
                continue
            self.found = self.left = _stands(judgement)
            said = self._session.state.clearance.of(words_of(judgement.subject))
            if (known := self._known(said)) is not None:
                self._asked_about[number] = known
            elif said is not None and said.is_open:
                due.append((number, criterion, judgement, said))
            elif question := self._ask(number, criterion, judgement):
                return question
        return next((question for one in due if (question := self._use(*one))), None)

    def _known(self, said: Cleared | None) -> str | None:
        """Why a command does not run on what stands now, "" where it may, None where nobody said so."""
        if not self.found:
            return None
        if self.found == self._session.state.clearance.trusted:
            return ""
        return said.refused if said is not None and not said.is_open and said.stands == self.found else None

    async def refusal(self, number: int, criterion: Criterion) -> str | e.OpenGate:
        """Right before a command: why it does not run, "" where it may, or the question where its state changed."""
        if why := self._asked_about.get(number):
            return why
        judgement = await self._calls.weigh(call_of(number, criterion))
        if judgement.access is not Access.ASK:
            return ""
        if number not in self._asked_about:
            return ASKED_SINCE
        if self.left and _stands(judgement) != self.left:
            return self._ask(number, criterion, judgement, "the workspace changed since") or KEPT_CHANGING
        return ""

    def ran(self) -> None:
        """Whatever one of them leaves is nobody else's doing."""
        if self.left:
            self.left = self._session.ports.tools.obeyed(self._calls.context(ToolCall("check", "run_command")))

    def _use(self, number: int, criterion: Criterion, judgement: p.Judgement, said: Cleared) -> e.OpenGate | None:
        cleared = f.CommandCleared(command=said.command, stands=_stands(judgement), gate=said.gate)
        self._session.flush()
        self._session.note(cleared)
        try:
            self._session.flush(self._session.ports.gatekeeper.consume(said.gate, judgement.subject))
        except p.ApprovalVoid as void:
            self._session.take_back()
            return self._ask(number, criterion, judgement, str(void))
        self._asked_about[number] = ""
        return None

    def _ask(self, number: int, criterion: Criterion, judgement: p.Judgement, void: str = "") -> e.OpenGate | None:
        """The question, unless it was asked too often: then the criterion stays unproven."""
        if not self._asks:
            self._asked_about[number] = WOULD_ASK
            return None
        if void and self._session.state.clearance.again >= AGAIN_AT_MOST:
            self._asked_about[number] = KEPT_CHANGING
            return None
        words = words_of(judgement.subject)
        self._session.note(f.CheckAsked(command=words, stands=_stands(judgement), again=bool(void)))
        again = (f"asked again: {void}",) if void else ()
        return e.OpenGate(
            kind=judgement.gate_kind or "tool_approval",
            title="",
            call=call_of(number, criterion),
            reasons=(*again, CHANGED if self._session.state.clearance.trusted else UNKNOWN, *judgement.reasons),
            risk=judgement.risk,
            criterion=criterion.text,
        )


def _stands(judgement: p.Judgement) -> str:
    """Hash of the workspace; "" where more was left out than what no approval covers."""
    match judgement.subject:
        case {"workspace": {"sha256": str(sha256), "uncovered": [_]}}:
            return sha256
    return ""
