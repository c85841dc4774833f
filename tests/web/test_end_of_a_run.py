"""What a person sees first of a run that has ended, or cannot begin: its result, and where its set-up says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from loops.models import Setup, Workspace
from tests.integration.rollback.world import Story
from tests.web.test_changed_files import page_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("R1", "J4")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    return Story(tmp_path, settings, monkeypatch)


def test_a_run_that_waits_for_a_set_up_leads_to_its_log_and_so_does_its_end(story: Story) -> None:
    story.calls([])
    workspace = Workspace.objects.get()
    link = f'href="{reverse("workspace", args=[workspace.pk])}"'
    Workspace.objects.update(setup_command="make deps")
    assert story.drive() == "folder"
    assert link in page_of(story.boss, f"/runs/{story.run.pk}/").partition('id="none-yet"')[2]
    for kind, is_linked in (("turn", False), ("folder", True)):
        type(story.run).objects.update(waiting_kind=kind)
        assert (link in page_of(story.boss, f"/runs/{story.run.pk}/")) == is_linked, kind
    Setup.objects.update(state="failed", why_not="The command ended with exit code 2.", ended_at=timezone.now())
    type(story.run).objects.update(lease_until=None, wake_at=timezone.now())
    assert story.drive() == "ended"
    assert link in page_of(story.boss, f"/runs/{story.run.pk}/").partition('id="run-end"')[2]
