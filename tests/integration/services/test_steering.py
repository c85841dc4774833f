"""Stop, pause, resume and messages: who may, when, and what reaches the run."""

import pytest

from loops.models import AuditEvent, MailboxItem, Run
from loops.services import steering
from loops.services.access import NotAllowed

Status = Run.Status
AT_WORK = {Status.QUEUED, Status.INITIALIZING, Status.THINKING, Status.EXECUTING_TOOL}
LIVE = AT_WORK | {Status.WAITING, Status.WAITING_FOR_RESOURCE}
POSSIBLE = {
    "stop": LIVE | {Status.PAUSED},
    "pause": LIVE,
    "resume": {Status.PAUSED, Status.INTERRUPTED},
    "check_confidence": LIVE | {Status.PAUSED},
    "message": LIVE | {Status.PAUSED, Status.INTERRUPTED},
}


def steer(kind, actor, run):
    if kind == "message":
        return steering.send_message(actor=actor, run=run, text="Mind the totals")
    return steering.STEERING[kind](actor=actor, run=run)


@pytest.mark.spec("K1", "K2")
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("kind", POSSIBLE)
def test_what_is_possible_in_which_state(world, kind, status):
    run = world.run(status)
    if status in POSSIBLE[kind]:
        item = steer(kind, world.operator, run)
        assert (item.kind, item.created_by) == (kind, world.operator)
        assert AuditEvent.objects.filter(kind=f"run.{kind}", run=run).count() == 1
        return
    with pytest.raises(steering.NotPossible, match="run"):
        steer(kind, world.operator, run)
    assert not MailboxItem.objects.exists()
    assert AuditEvent.objects.filter(kind=f"run.{kind}_refused", run=run).count() == 1


FAILURES = {"internal_error": True, "journal_unreadable": True, "model_unavailable": True, "max_steps": False}


@pytest.mark.spec("A5", "E6")
@pytest.mark.parametrize("reason", FAILURES)
def test_only_a_failure_of_ours_or_the_models_is_tried_again(world, reason):
    run = world.run(Status.FAILED)
    Run.objects.filter(pk=run.pk).update(end_reason=reason, recoveries=6)
    if not FAILURES[reason]:
        with pytest.raises(steering.NotPossible):
            steering.retry_run(actor=world.operator, run=run)
        assert AuditEvent.objects.filter(kind="run.retry_refused", run=run, actor=world.operator).count() == 1
        return
    item = steering.retry_run(actor=world.operator, run=run)
    run.refresh_from_db()
    assert (item.kind, run.recoveries, run.runnable) == ("resume", 0, True)
    assert AuditEvent.objects.filter(kind="run.retry", run=run, actor=world.operator).count() == 1
    assert run.status == (Status.QUEUED if reason == "journal_unreadable" else Status.FAILED)


@pytest.mark.spec("A5", "S4")
@pytest.mark.parametrize("who", ["reviewer", "viewer", "outsider"])
def test_only_operators_try_again(world, who):
    run = world.run(Status.FAILED)
    Run.objects.filter(pk=run.pk).update(end_reason="internal_error")
    with pytest.raises(NotAllowed):
        steering.retry_run(actor=getattr(world, who), run=run)
    assert not MailboxItem.objects.exists()


@pytest.mark.spec("K1", "S4")
@pytest.mark.parametrize("kind", POSSIBLE)
@pytest.mark.parametrize("who", ["reviewer", "viewer", "outsider"])
def test_others_steer_nothing(world, kind, who):
    run = world.run(Status.PAUSED)
    with pytest.raises(NotAllowed):
        steer(kind, getattr(world, who), run)
    assert not MailboxItem.objects.exists()
    assert AuditEvent.objects.filter(kind="access.refused", run=run, actor=getattr(world, who)).count() == 1


@pytest.mark.spec("K1")
@pytest.mark.parametrize("text", ["/stop", " /STOP\n", "/stop it, please", "/stop now!"])
def test_slash_stop_in_the_message_box_stops(world, text):
    item = steering.send_message(actor=world.operator, run=world.run(), text=text)
    assert item.kind == "stop"


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize("text", ["stop", "Please stop now!"])
def test_a_message_that_only_wants_it_stops_at_once_and_stays_in_the_conversation(world, text):
    item = steering.send_message(actor=world.operator, run=world.run(), text=text)
    assert (item.kind, item.payload) == ("stop", {"text": text})


@pytest.mark.spec("K2", "Q5")
@pytest.mark.parametrize(
    "text",
    ["/etc/hosts is wrong", "don't stop", "//stop", "see /stop", "/ stop", "/1 of them", "1 /approve", "don't /stop"],
)
def test_everything_else_is_an_ordinary_message(world, text):
    item = steering.send_message(actor=world.operator, run=world.run(), text=text)
    assert (item.kind, item.payload) == ("message", {"text": text})


@pytest.mark.spec("K2", "X7")
@pytest.mark.parametrize(
    "text", ["/approve 12", "/reject 3", "/stp", " /Help\n", "/stop\n/approve", "/pause for lunch"]
)
def test_a_command_that_does_not_exist_is_refused_with_those_that_do(world, text):
    with pytest.raises(steering.InvalidMessage) as refused:
        steering.send_message(actor=world.operator, run=world.run(), text=text)
    known = [f"/{name}" for name in steering.STEERING]
    stands_alone = text.split()[0].lower() in known
    said = str(refused.value)
    assert "nothing was sent" in said
    assert "stands alone" in said if stands_alone else all(name in said for name in known)
    assert not MailboxItem.objects.exists()


@pytest.mark.parametrize("text", ["", "  ", "x" * 20_001, "a\0", "\udfff"])
def test_messages_that_cannot_be_delivered_are_refused(world, text):
    with pytest.raises(steering.InvalidMessage):
        steering.send_message(actor=world.operator, run=world.run(), text=text)
    assert not MailboxItem.objects.exists()


@pytest.mark.spec("K1")
def test_a_stop_makes_a_waiting_run_runnable_and_rings(world, django_capture_on_commit_callbacks):
    run = world.run(Status.WAITING)
    Run.objects.filter(pk=run.pk).update(runnable=False)
    with django_capture_on_commit_callbacks() as callbacks:
        steering.stop_run(actor=world.operator, run=run)
    run.refresh_from_db()
    assert run.runnable
    assert len(callbacks) == 1
