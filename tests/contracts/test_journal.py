"""What every journal promises the driver: the fake of the unit tests is held to the one on Postgres."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine import ports as p
from tests.contracts.conftest import JournalRig

pytestmark = pytest.mark.spec("A4")
WAKE_AT = 4_000_000_000_000_000


def fail(cursor: Any) -> None:
    raise RuntimeError("no")


def void(cursor: Any) -> None:
    raise p.ApprovalVoid("it changed")


def test_facts_come_back_as_they_were_written_in_order(rig: JournalRig) -> None:
    entries = rig.entries(f.RunPaused(by="ana"), f.RunResumed(by="ana"), f.MessageReceived(text="x" * 9000, by="bo"))
    rig.journal.append(entries[:1])
    rig.journal.append(entries[1:])
    assert rig.stored()[1:] == [fact for fact, _ in entries]


def test_nothing_appended_writes_nothing(rig: JournalRig) -> None:
    before = rig.stored()
    rig.journal.append([])
    assert rig.stored() == before


def test_what_joins_the_transaction_finds_the_facts_in_it_and_runs_in_order(rig: JournalRig) -> None:
    seen: list[Any] = []
    rig.journal.append(
        rig.entries(f.RunPaused(by="ana")),
        [lambda cursor: seen.append(len(rig.stored())), lambda cursor: seen.append("second")],
    )
    assert seen == [2, "second"]


@pytest.mark.spec("J1")
@pytest.mark.parametrize(("joins", "error"), [(fail, RuntimeError), (void, p.ApprovalVoid)])
def test_an_error_of_what_joins_leaves_nothing_written(rig: JournalRig, joins: Any, error: type[Exception]) -> None:
    rig.send("message", text="hello")
    before, mail = rig.stored(), rig.journal.mail()
    entries = rig.entries(f.RunPaused(by="ana"), f.MessageReceived(text="y" * 9000))
    with pytest.raises(error):
        rig.journal.append(entries, [rig.journal.read(mail), joins])
    assert rig.stored() == before
    assert rig.journal.mail() == mail


def test_after_an_error_the_owner_goes_on(rig: JournalRig) -> None:
    entries = rig.entries(f.MessageReceived(text="z" * 9000, by="ana"))
    with pytest.raises(p.ApprovalVoid):
        rig.journal.append(entries, [void])
    rig.journal.append(entries)
    rig.journal.append(rig.entries(f.RunPaused(by="ana")))
    assert [type(fact) for fact in rig.stored()] == [f.RunStarted, f.MessageReceived, f.RunPaused]


@pytest.mark.spec("J3")
class TestAnOwnerWhoLostTheRun:
    def test_writes_nothing(self, rig: JournalRig) -> None:
        ran: list[Any] = []
        entries, before = rig.entries(f.RunPaused(by="ana")), rig.stored()
        rig.lose()
        with pytest.raises(p.LeaseLost):
            rig.journal.append(entries)
        with pytest.raises(p.LeaseLost):
            rig.journal.append(entries, [ran.append])
        assert rig.stored() == before
        assert not ran

    def test_takes_no_mail_away(self, rig: JournalRig) -> None:
        """Mail that means nothing to a stale state may mean everything to the new owner."""
        rig.send("resume")
        mail = rig.journal.mail()
        rig.lose()
        with pytest.raises(p.LeaseLost):
            rig.journal.append([], [rig.journal.read(mail)])
        assert rig.journal.mail_kinds() == {"resume"}

    def test_cannot_renew(self, rig: JournalRig) -> None:
        rig.journal.renew()
        rig.lose()
        with pytest.raises(p.LeaseLost):
            rig.journal.renew()

    def test_gives_nothing_back(self, rig: JournalRig) -> None:
        rig.lose()
        before = rig.rest()
        rig.journal.release(wake_at=WAKE_AT, runnable=True)
        assert rig.rest() == before


class TestMail:
    def test_comes_in_the_order_it_was_sent_with_its_sender(self, rig: JournalRig) -> None:
        rig.send("pause", by="ana")
        rig.send("message", by="bo", text="look again", extra={"n": [1, 2.5, None]})
        rig.send("stop")
        found = [(mail.kind, dict(mail.payload), mail.by) for mail in rig.journal.mail()]
        message = {"text": "look again", "extra": {"n": [1, 2.5, None]}}
        assert found == [("pause", {}, "ana"), ("message", message, "bo"), ("stop", {}, "")]
        assert rig.journal.mail_kinds() == {"pause", "message", "stop"}

    def test_looking_takes_nothing_away(self, rig: JournalRig) -> None:
        rig.send("pause")
        assert rig.journal.mail() == rig.journal.mail()
        rig.journal.read(rig.journal.mail())
        assert rig.journal.mail_kinds() == {"pause"}

    def test_is_read_with_the_facts_made_of_it(self, rig: JournalRig) -> None:
        rig.send("pause", by="ana")
        mail = rig.journal.mail()
        rig.journal.append(rig.entries(f.RunPaused(by="ana")), [rig.journal.read(mail)])
        assert not rig.journal.mail()
        assert rig.journal.mail_kinds() == frozenset()

    def test_that_came_in_meanwhile_stays(self, rig: JournalRig) -> None:
        rig.send("pause")
        mail = rig.journal.mail()
        rig.send("stop")
        rig.journal.append([], [rig.journal.read(mail)])
        assert [item.kind for item in rig.journal.mail()] == ["stop"]


class TestGivingBack:
    @pytest.mark.parametrize("runnable", [True, False])
    def test_says_whether_something_is_to_be_done(self, rig: JournalRig, runnable: bool) -> None:
        rig.journal.release(runnable=runnable)
        assert rig.rest() == (0, runnable)

    def test_with_a_timer(self, rig: JournalRig) -> None:
        rig.journal.release(wake_at=WAKE_AT)
        assert rig.rest() == (WAKE_AT, False)

    @pytest.mark.spec("J4")
    def test_with_unread_mail_leaves_something_to_do(self, rig: JournalRig) -> None:
        rig.send("resume")
        rig.journal.release()
        assert rig.rest() == (0, True)


@pytest.mark.spec("J3")
def test_a_lease_ends_later_once_it_is_renewed(rig: JournalRig) -> None:
    rig.journal.renew()
    before = rig.journal.lease_ends()
    rig.journal.renew()
    assert rig.journal.lease_ends() >= before > 0


@pytest.mark.spec("J3")
def test_a_word_about_hanging_changes_nothing_in_the_journal(rig: JournalRig) -> None:
    before = rig.stored()
    rig.journal.hang("look hangs")
    assert rig.stored() == before
