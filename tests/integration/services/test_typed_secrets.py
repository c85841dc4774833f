"""Known secrets typed into forms, names and forks, searched for in every stored row and in the answer (SPEC S3)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import CharField, JSONField, TextField
from django.urls import reverse

from agentops.urls import admin
from loops import masking
from loops.models import AuditEvent, Fork
from loops.services import forks as services_forks
from loops.services import people, tokens
from tests import fakes
from tests.integration.storage import forks
from tests.integration.storage.forks import Ledger

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S3")]
SECRET = "planted-value-of-this-house-0123456789"
TYPED = sorted(
    (model._meta.label_lower, field.name)
    for model in admin.site._registry
    if model._meta.app_label in ("loops", "auth")
    for field in model._meta.fields
    if isinstance(field, CharField | TextField | JSONField) and field.editable and field.name != "password"
)
SHOWN_ONLY = {"auditevent", "policyversion", "provenancerecord", "run", "task", "modeladdress"}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_masker", masking.Masker({"ODD_KEY": SECRET}))


def stored() -> list[str]:
    """Tables with a row that holds a part of it, as text or as bytes."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            sought = [SECRET[:20], SECRET[:20].encode().hex()]
            cursor.execute(f'SELECT 1 FROM "{table}" t WHERE strpos(t::text, %s) + strpos(t::text, %s) > 0', sought)
            found += [table] if cursor.fetchone() else []
    return found


@pytest.mark.parametrize("label", sorted({label for label, _ in TYPED if label.split(".")[1] not in SHOWN_ONLY}))
def test_forms_of_the_admin_keep_none(world: Any, client: Any, label: str) -> None:
    """Each field of text that a form of the admin offers, whatever else is typed beside it."""
    client.force_login(world.root)
    for field in [name for model, name in TYPED if model == label]:
        page, form = _offering(client, label, field)
        given = {key: said for key, said in form.initial.items() if said is not None and not isinstance(said, list)}
        answer = client.post(page, {**given, field: f"see {SECRET}", "reason": "r"})
        assert answer.status_code == 200, field
        assert masking.LEAVE_OUT in answer.content.decode(), field
        assert SECRET not in answer.content.decode(), field
        assert AuditEvent.objects.filter(kind="access.refused", detail__fields=[field]).count() == 1, field
    assert stored() == []


def _offering(client: Any, label: str, field: str) -> tuple[str, Any]:
    """Address and form of the page that has this field: the one to add a row, or to change one."""
    name = f"admin:{label.replace('.', '_')}"
    shown = client.get(page := reverse(f"{name}_add"))
    if shown.status_code == 403 or field not in shown.context["adminform"].form.fields:
        shown = client.get(page := reverse(f"{name}_change", args=[_first(label)]))
    form = shown.context["adminform"].form
    assert field in form.fields, "no form offers it"
    return page, form


def _first(label: str) -> Any:
    return next(m for m in admin.site._registry if m._meta.label_lower == label)._default_manager.first().pk


def test_a_password_may_be_one_since_it_is_hashed(world: Any, client: Any) -> None:
    client.force_login(world.root)
    form = {"username": "new", "password1": SECRET, "password2": SECRET, "usable_password": "true"}
    answer = client.post(reverse("admin:auth_user_add"), form)
    assert answer.status_code == 302
    assert get_user_model().objects.get(username="new").check_password(SECRET)
    assert stored() == []


def test_tokens_are_not_named_after_one(world: Any) -> None:
    with pytest.raises(people.NotPossible, match="leave it out"):
        tokens.new_token(actor=world.operator, user=world.operator, name=SECRET)
    assert stored() == []


def test_a_fork_keeps_none(world: Any, settings: Any, tmp_path: Path) -> None:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    mine = forks.parent_in(tmp_path / "parent", world.submit().run)
    assert mine.drive([fakes.says("1", ("act", {"at": 1})), fakes.done("so")], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    services_forks.fork_run(
        actor=world.operator, run=mine.run, step=1, message=f"Use {SECRET}", instructions=f"Know {SECRET}"
    )
    kept = Fork.objects.get()
    assert (kept.message, kept.instructions) == ("Use [masked: ODD_KEY]", "Know [masked: ODD_KEY]")
    asked = {
        "step": 1,
        "seq": None,
        "message": kept.message,
        "instructions": kept.instructions,
        "model": "",
        "limits": {},
    }
    plain = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    assert kept.content_sha256 == hashlib.sha256(plain.encode()).hexdigest(), "whoever guesses could try against a hash"
    assert stored() == []
