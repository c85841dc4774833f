"""Who was lost, whether it is proven to be gone, and what it said of itself (SPEC J2, J3)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from loops.engine import facts as f
from loops.models import AuditEvent
from loops.runs import drive
from loops.storage import connections, journal, owners, reader
from tests.integration.storage import owned

WHO = "import time; from loops.storage import owners; print(owners.me(), flush=True); time.sleep(60)"


@pytest.mark.spec("J2", "J3")
class TestProofOfDeath:
    def test_a_process_that_lives_or_sleeps_is_not_dead_and_a_killed_one_is(self) -> None:
        with subprocess.Popen([sys.executable, "-c", WHO], stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            name = worker.stdout.readline().strip()
            assert not owners.is_dead(name)
            worker.send_signal(signal.SIGSTOP)
            assert not owners.is_dead(name), "it may wake up"
            worker.kill()
            os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
            assert owners.is_dead(name), "its remains do nothing"
        assert owners.is_dead(name)

    def test_somebody_else_with_its_number_is_not_it(self) -> None:
        *rest, birth, parent = owners.me().split(":")
        assert owners.is_dead(":".join([*rest, str(int(birth) - 1), parent]))
        assert not owners.is_dead(owners.me())

    @pytest.mark.parametrize(("place", "value"), [(0, "elsewhere"), (3, "anotherb"), (4, "1"), (1, "x"), (5, "")])
    def test_nothing_is_proven_of_another_machine_or_container(self, place: int, value: str) -> None:
        parts = owners.me().split(":")
        parts[1], parts[5] = "4194304", "1"
        assert owners.is_dead(":".join(parts)), "the control: here it would be proven"
        parts[place] = value
        assert not owners.is_dead(":".join(parts))

    def test_a_process_that_ends_with_whoever_started_it_did_not_die_alone(self) -> None:
        """As when a machine's service, or all of AgentOps, is ended at once."""
        parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WHO!r}]).wait()"
        with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            name = started.stdout.readline().strip()
            os.kill(int(name.split(":")[1]), signal.SIGKILL)
            started.wait()
        assert owners.is_dead(name)
        assert not owners.died_alone(name)
        with subprocess.Popen([sys.executable, "-c", WHO], stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            alone = worker.stdout.readline().strip()
            assert not owners.died_alone(alone)
            worker.kill()
        assert owners.died_alone(alone)
        assert not owners.died_alone(alone.rpartition(":")[0]), "an owner of an older version"

    def test_nor_of_an_owner_of_an_older_version(self) -> None:
        assert not owners.is_dead(f"{socket.gethostname()}:4194304:140000")
        assert not owners.is_dead("")


@pytest.mark.django_db(transaction=True)
class TestWhatTheNextOwnerWrites:
    @pytest.mark.spec("J3", "J4")
    def test_names_the_lost_one_and_what_it_said(self, settings: Any) -> None:
        settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
        mine = owned.begun()
        mine.journal.hang("look hangs")
        owned.lapse(mine.run)
        drive.drive(mine.run.pk, owners.me())
        taken = next(fact for fact in reader.history(mine.run.pk) if isinstance(fact, f.RunTakenOver))
        assert (taken.lost, taken.lost_is_dead, taken.why) == ("somebody", False, "look hangs")
        assert AuditEvent.objects.get(kind="run.hung").detail == {"what": "look hangs", "epoch": 1}

    @pytest.mark.spec("J3")
    def test_a_lease_ends_before_the_databases_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Counted from before the claim was sent: never later than when another may take over."""
        told = iter([100.0, 107.0])
        monkeypatch.setattr(journal, "uptime", lambda: next(told))
        mine = owned.own(owned.new_run(), ttl_s=15.0)
        assert mine.journal.lease_ends() == 115.0
        mine.journal.renew()
        assert mine.journal.lease_ends() == 122.0
        limits = (connections.IDLE_IN_TRANSACTION_MS, connections.LOCK_MS, connections.STATEMENT_MS)
        assert max(limits) < journal.TTL_S * 1000, "whoever freezes with the row locked is cut off within it"
