"""The Tools page: what is registered, what holds where nobody declared anything, and what could not be loaded."""

from __future__ import annotations

import pytest
from django.urls import reverse

from loops.models import AccessRule


@pytest.mark.spec("I3")
def test_a_row_that_names_nothing_is_shown_as_it_is_read(house):
    AccessRule.objects.create(project=house.project, access="allow")
    page = house.client("viewer").get(reverse("tools")).content.decode()
    assert "an allow has to name a tool or an operation" in page
    AccessRule.objects.filter(operation="*").update(tool="read_file")
    page = house.client("viewer").get(reverse("tools")).content.decode()
    assert "an allow has to name" not in page


@pytest.mark.spec("I3")
def test_the_page_says_what_holds_without_a_rule(house):
    page = house.client("viewer").get(reverse("tools")).content.decode()
    row = page[page.index("<code>read_file</code>") :]
    assert '<td data-of="Without a rule">ask</td>' in row[: row.index("</tr>")]


@pytest.mark.spec("I3")
def test_whoever_submits_a_task_reads_that_the_unnamed_is_asked_for(house):
    house.project.access_rules.all().delete()
    page = house.client("operator").get(reverse("new-task")).content.decode()
    assert "before anything not covered by a rule" in page
