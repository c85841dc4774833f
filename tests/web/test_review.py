"""The Review page as a browser without JavaScript, and as htmx, sees it."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import unquote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof
from loops.models import Membership
from tests import factories as make
from tests.integration.gates.builders import World, make_run, make_world, open_gate, proof_of, tool_view

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q3", "Q7")]
HTMX = {"HX-Request": "true"}


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def browser(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def post(client: Client, gate: Gate, verdict: str = "approve", *, htmx: bool = False, **fields: Any) -> Any:
    data = {"verdict": verdict, "digest": gate.digest, "shown": proof_of(client, gate), **fields}
    return client.post(f"/review/{gate.pk}/decide/", data, headers=HTMX if htmx else {})


def text(response: Any) -> str:
    return response.content.decode()


def test_page_shows_the_queue_and_its_first_gate_whole(world: World) -> None:
    gate = open_gate(world, title="Overwrite notes/today.md")
    page = text(browser(world.reviewer).get("/review/"))
    for part in (
        "Overwrite notes/today.md",
        "# Today",
        "rule general / write_file / write: ask",
        gate.digest,
        "Medium risk",
    ):
        assert part in page


def test_deep_link_survives_login(world: World) -> None:
    gate = open_gate(world)
    response = Client().get(f"/review/{gate.pk}/")
    assert response["Location"] == f"/login/?next=/review/{gate.pk}/"


@pytest.mark.spec("Q5")
@pytest.mark.parametrize("path", ["", "?verdict=approve", "decide/", "decide/?verdict=approve"])
def test_get_never_decides(world: World, path: str) -> None:
    gate = open_gate(world)
    browser(world.reviewer).get(f"/review/{gate.pk}/{path}", {"digest": gate.digest, "verdict": "approve"})
    gate.refresh_from_db()
    assert gate.is_open
    assert not Decision.objects.exists()


@pytest.mark.spec("Q5")
def test_without_the_token_of_the_page_nothing_is_decided(world: World) -> None:
    gate, client = open_gate(world), Client(enforce_csrf_checks=True)
    client.force_login(world.reviewer)
    assert post(client, gate).status_code == 403
    assert not Decision.objects.exists()


def test_approving_leads_to_the_next_gate_and_says_what_happened(world: World) -> None:
    first, second = open_gate(world, risk="high"), open_gate(world, title="Second thing")
    response = browser(world.reviewer).post(
        f"/review/{first.pk}/decide/",
        {"verdict": "approve", "digest": first.digest, "shown": whole_proof(world.reviewer, first), "sure": "1"},
        follow=True,
    )
    assert response.redirect_chain == [(f"/review/{second.pk}/", 302)]
    assert "Approved: Write notes/today.md" in text(response)
    assert Decision.objects.get().gate_id == first.pk


@pytest.mark.parametrize(
    ("kind", "verdict", "said"),
    [
        ("tool_approval", "reject", "Rejected: Thing"),
        ("question", "respond", "Answer sent: Thing"),
        ("final_review", "reject", "Asked for changes: Thing"),
    ],
)
def test_what_is_said_afterwards_has_the_verb_of_the_button(world: World, kind: str, verdict: str, said: str) -> None:
    gate = open_gate(world, kind=kind, title="Thing")
    sent = {"verdict": verdict, "digest": gate.digest, "reason": "Not yet", "answer": "Yes", "sure": "1"}
    sent["shown"] = whole_proof(world.reviewer, gate)
    page = text(browser(world.reviewer).post(f"/review/{gate.pk}/decide/", sent, follow=True))
    assert said in page


ROLLBACK = {"kind": "rollback_choice", "view": {"choices": ["roll_back"]}}


@pytest.mark.spec("Q5")
@pytest.mark.parametrize(
    ("more", "verdict", "asks"),
    [
        ({"risk": "high"}, "approve", "High risk: are you sure?"),
        (ROLLBACK, "roll_back", "Roll back all that is listed above?"),
    ],
    ids=["approve", "roll back"],
)
def test_a_browser_without_scripts_is_asked_whether_one_is_sure(
    world: World, more: dict[str, Any], verdict: str, asks: str
) -> None:
    gate, client = open_gate(world, **more), browser(world.reviewer)
    hidden = f'data-sure hidden role="status"><strong>{asks}'
    first = text(client.get(f"/review/{gate.pk}/"))
    response = post(client, gate, verdict)
    assert response.status_code == 422
    assert asks in text(response)
    assert text(response).count(hidden) == first.count(hidden) - 1
    assert not Decision.objects.exists()
    assert post(client, gate, verdict, sure="1").status_code == 302
    assert Decision.objects.get().verdict == verdict


def test_several_of_high_risk_are_asked_about_once_more_without_scripts_too(world: World) -> None:
    gates, client = [open_gate(world, risk="high"), open_gate(world, risk="high", call_id="2")], browser(world.reviewer)
    items = [f"{gate.pk}:{gate.digest}:{proof_of(client, gate)}" for gate in gates]
    asked = {"verdict": "approve", "item": items}
    for sent in ({}, {"again": "1"}):
        page = text(client.post("/review/bulk/", {**asked, **sent}))
        assert ("data-sure hidden" in page) is (not sent)
        assert 'type="submit" name="confirmed" value="1"' in page
        assert '<input type="hidden" name="confirmed"' not in page
    assert not Decision.objects.exists()
    assert "2 of 2 decided" in text(client.post("/review/bulk/", {**asked, "confirmed": "1"}))


def test_htmx_gets_the_next_gate_in_the_same_answer(world: World) -> None:
    first, second = open_gate(world, risk="high"), open_gate(world)
    response = post(browser(world.reviewer), first, htmx=True, sure="1")
    assert response["HX-Push-Url"] == f"/review/{second.pk}/"
    assert "<html" not in text(response)
    assert 'hx-swap-oob="true"' in text(response)


@pytest.mark.spec("Q5")
def test_loser_of_a_race_reads_who_and_when(world: World) -> None:
    gate = open_gate(world)
    post(browser(world.reviewer), gate)
    response = post(browser(world.second), gate, "reject", htmx=True, reason="no")
    assert response.status_code == 409
    assert "Already approved by Ana at" in text(response)


def test_errors_come_back_at_their_fields_with_what_was_typed(world: World) -> None:
    gate = open_gate(world, view=tool_view(arguments={"path": "a", "content": "b", "lines": 3}))
    fields = {"arg-path": "new-path.md", "arg-content": "kept text", "arg-lines": "many"}
    for htmx in (True, False):
        response = post(browser(world.reviewer), gate, "approve_with_edits", htmx=htmx, **fields)
        assert response.status_code == 422
        for part in ("Give a number.", "new-path.md", "kept text"):
            assert part in text(response)
    response = post(browser(world.reviewer), gate, "reject", htmx=True, reason=" ")
    assert "Say why" in text(response)


@pytest.mark.spec("Q6", "S4")
@pytest.mark.parametrize("path", ["", "decide/", "claim/"])
def test_gate_of_another_project_is_not_found(world: World, path: str) -> None:
    gate, client = open_gate(world), browser(world.outsider)
    address = f"/review/{gate.pk}/{path}"
    response = client.post(address, {"verdict": "approve", "digest": gate.digest}) if path else client.get(address)
    assert response.status_code == 404


@pytest.mark.spec("Q6")
def test_viewer_sees_the_gate_without_buttons_and_is_refused(world: World) -> None:
    gate, client = open_gate(world), browser(world.viewer)
    page = text(client.get(f"/review/{gate.pk}/"))
    assert "data-approve" not in page
    assert "role reviewer" in page
    assert post(client, gate, htmx=True).status_code == 403


@pytest.mark.spec("Q6", "Q7")
def test_fragment_checks_again_after_the_role_is_gone(world: World) -> None:
    gate, client = open_gate(world), browser(world.reviewer)
    client.get(f"/review/{gate.pk}/")
    Membership.objects.filter(user=world.reviewer).delete()
    assert client.get(f"/review/{gate.pk}/", headers=HTMX).status_code == 404
    assert post(client, gate, htmx=True).status_code == 404
    assert gate.title not in text(client.get("/review/list/"))


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>"
    '<a href="javascript:alert(1)" hx-get="/x" hx-on:click="x">'
)


@pytest.mark.spec("Q5")
def test_hostile_text_is_inert_everywhere(world: World) -> None:
    view = tool_view(
        arguments={HOSTILE: HOSTILE}, command=HOSTILE, diff=HOSTILE, reasoning=HOSTILE, extra={HOSTILE: [HOSTILE]}
    )
    gate = open_gate(world, title=HOSTILE, view=view, reasons=(HOSTILE,), recommended=HOSTILE[:20], tool="t")
    page = text(browser(world.reviewer).get(f"/review/{gate.pk}/"))
    for live in ("<script>alert", "<img src=x", '<a href="javascript', 'hx-on:click="x"'):
        assert live not in page


@pytest.mark.spec("Q5")
@pytest.mark.parametrize(
    ("character", "said"),
    [("\u202e", "U+202E"), ("\u200b", "U+200B"), ("\u00a0", "U+00A0"), ("\r", "U+000D"), ("\u3164", "U+3164")],
)
def test_characters_nobody_sees_are_shown_with_a_warning(world: World, character: str, said: str) -> None:
    gate = open_gate(world, view=tool_view(command=f"rm -rf{character}/tmp/x"))
    page = text(browser(world.reviewer).get(f"/review/{gate.pk}/"))
    assert f">{said}</span>" in page
    assert "misleading characters" in page


@pytest.mark.spec("Q5")
def test_what_an_approval_does_not_cover_is_said(world: World) -> None:
    covers = {"sha256": "0" * 64, "files": 4, "uncovered": ["programs outside the workspace", "<b>one more</b>"]}
    gate = open_gate(world, view=tool_view(argv=["make"], covers=covers))
    page = text(browser(world.reviewer).get(f"/review/{gate.pk}/"))
    assert "Not covered: programs outside the workspace; &lt;b&gt;one more&lt;/b&gt;." in page


def test_ordinary_text_carries_no_warning(world: World) -> None:
    gate = open_gate(world, view=tool_view(command="printf 'déjà vu 日本語'\n\tindented"))
    assert "misleading characters" not in text(browser(world.reviewer).get(f"/review/{gate.pk}/"))


@pytest.mark.spec("Q5")
def test_long_view_is_shown_to_its_end_and_approved_only_after_it_was_seen(world: World) -> None:
    gate = open_gate(world, view=tool_view(command="echo ok\n" * 4000 + "rm -rf /the/end"))
    client = browser(world.reviewer)
    page = text(client.get(f"/review/{gate.pk}/"))
    assert "rm -rf /the/end" in page
    assert "data-approve disabled" in page
    assert post(client, gate, htmx=True, shown="").status_code == 409
    assert post(client, gate, htmx=True, shown=gate.digest).status_code == 409
    assert post(client, gate, htmx=True).status_code == 200


@pytest.mark.spec("Q5")
def test_view_too_long_to_read_cannot_be_approved(world: World) -> None:
    gate = open_gate(world, view=tool_view(command="x" * 500_000))
    client = browser(world.reviewer)
    assert "too long to review" in text(client.get(f"/review/{gate.pk}/"))
    assert post(client, gate, htmx=True).status_code == 422


def test_three_empty_states(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = browser(world.reviewer)
    assert "No pending decisions" in text(client.get("/review/"))
    open_gate(world, risk="low")
    assert "No matches" in text(client.get("/review/?risk=high"))

    def fail(*_: Any, **__: Any) -> None:
        from django.db import OperationalError

        raise OperationalError("gone")

    monkeypatch.setattr("gates.web.queue.read", fail)
    assert "could not be loaded" in text(client.get("/review/"))


def test_filters_and_count_come_from_one_query(world: World) -> None:
    for risk in ("low", "high", "high"):
        open_gate(world, risk=risk)
    client = browser(world.reviewer)
    page = text(client.get("/review/list/?risk=high"))
    assert 'data-total="2"' in page
    assert page.count("data-row=") == 2
    assert 'data-total="3"' in text(client.get("/review/list/?risk=odd"))


def test_pages_by_key_show_every_gate_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    monkeypatch.setattr("gates.web.queue.PAGE", 3)
    made = {str(open_gate(world, risk=("low", "high", "medium")[number % 3]).pk) for number in range(8)}
    client, after, seen = browser(world.reviewer), "", []
    for _ in range(5):
        page = text(client.get("/review/list/" + (f"?after={after}" if after else "")))
        seen += re.findall(r'data-row="([\w-]+)"', page)
        if not (found := re.search(r"after=([\w-]+)", page)):
            break
        after = found[1]
    assert len(seen) == 8
    assert set(seen) == made
    assert client.get("/review/list/?after=%%%").status_code == 200


def test_claim_and_release(world: World) -> None:
    gate, client = open_gate(world), browser(world.reviewer)
    client.post(f"/review/{gate.pk}/claim/", headers=HTMX)
    assert f'data-row="{gate.pk}"' in text(client.get("/review/list/?whose=claimed"))
    assert browser(world.second).post(f"/review/{gate.pk}/claim/", headers=HTMX).status_code == 403
    client.post(f"/review/{gate.pk}/claim/", {"release": "1"}, headers=HTMX)
    gate.refresh_from_db()
    assert gate.claimed_by is None


def test_bulk_is_previewed_and_tells_of_each(world: World) -> None:
    gates = [open_gate(world, title=f"Thing {number}") for number in range(3)]
    items = [f"{gate.pk}:{gate.digest}" for gate in gates]
    client = browser(world.reviewer)
    preview = text(client.post("/review/bulk/", {"verdict": "reject", "item": items}))
    assert "Reject 3 together?" in preview
    assert not Decision.objects.exists()
    assert "Say why" in text(client.post("/review/bulk/", {"verdict": "reject", "item": items, "confirmed": "1"}))
    post(browser(world.second), gates[0])
    done = client.post("/review/bulk/", {"verdict": "reject", "item": items, "confirmed": "1", "reason": "not now"})
    assert "2 of 3 decided" in text(done)
    assert "Already approved" in text(done)


def test_card_on_the_page_of_a_run_stays_there(world: World) -> None:
    gate = open_gate(world)
    response = post(browser(world.reviewer), gate, htmx=True, place="run")
    assert text(response).strip().startswith("<article")
    assert "Already approved by Ana" in text(response)


@pytest.mark.parametrize("kind", Gate.Kind.values)
def test_every_kind_has_its_buttons(world: World, kind: str) -> None:
    views = {
        "question": {"question": "Which?", "choices": ["red", "blue"], "reasoning": "r"},
        "final_review": {
            "result": "All done",
            "criteria": [{"text": "runs", "command": "make", "status": "passed", "detail": ""}],
        },
        "limit_reached": {"limit": "max_steps", "used": 20, "bound": 20, "suggested": 30},
        "escalation": {
            "failure": "read_file: It named a place outside.",
            "rule": "escape_attempt",
            "tried": [{"step": 1, "tool": "read_file", "arguments": '{"path":"../x"}', "outcome": '"no"'}],
            "files_changed": ["a.txt"],
        },
        "long_task": {"steps": 20, "steps_since": 20, "asks_again_after": 20, "progress": 0.4, "tokens": 9},
        "loop_detected": {"pattern": "read, read, read", "reasoning": "r"},
        "rollback_choice": {
            "files": [{"path": "a.txt", "what": "remove", "why_not": ""}],
            "others": [{"what": "run_command make", "why_not": "nobody recorded what it changed"}],
            "diff": "--- a/a.txt\n+++ b/a.txt\n-new\n",
            "choices": ["roll_back", "keep", "continue"],
        },
    }
    gate = open_gate(world, kind, view=views.get(kind, tool_view()))
    page = text(browser(world.reviewer).get(f"/review/{gate.pk}/"))
    from gates.policy.verdicts import allowed

    for verdict in allowed(kind):
        assert f'name="verdict" value="{verdict}"' in page
    if kind == "escalation":
        assert "It named a place outside." in page
        assert "../x" in page
    if kind == "long_task":
        assert "20 since the last confirmation by a person" in page
        assert "Guidance" in page


def test_a_providers_own_words_are_on_the_card_of_a_rollback_and_no_markup(world: World) -> None:
    said = "claude: 529 <script>alert(1)</script> \u202egnihton"
    view = {"files": [], "others": [], "diff": "", "choices": ["roll_back", "keep"], "failure": said}
    gate = open_gate(world, "rollback_choice", view=view)
    page = text(browser(world.reviewer).get(f"/review/{gate.pk}/"))
    card = page.split("What failed</h4>")[1].split("</section>")[0]
    assert "claude: 529 &lt;script&gt;alert(1)&lt;/script&gt;" in card
    assert "<script>alert" not in page
    assert "\u202e" not in card
    assert page.count("claude: 529") == 1, "not a second time among what is not laid out"


@pytest.mark.parametrize(
    ("kind", "button", "hint"),
    [
        ("tool_approval", "Reject", "tries to do better"),
        ("limit_reached", "End the run", "The run ends here"),
        ("long_task", "Stop the run", "can be resumed"),
        ("permission_blocked", "Keep blocked", "continues without the call"),
        ("question", "Do not answer", "continues without an answer"),
    ],
)
def test_the_button_of_a_rejection_says_what_it_does(world: World, kind: str, button: str, hint: str) -> None:
    view = {"limit": "max_steps", "used": 8, "bound": 8, "steps": 8, "progress": 0.5, "tokens": 9}
    gate = open_gate(world, kind, view=view)
    pane = text(browser(world.reviewer).get(f"/review/{gate.pk}/")).split('data-verdict="reject"')[1]
    assert button in pane
    assert hint in pane


def test_a_limit_and_a_recommendation_are_called_as_people_call_them(world: World) -> None:
    view = {"limit": "max_steps", "used": 8, "bound": 8}
    reasons = ("max_steps: 8 used, 8 allowed",)
    gate = open_gate(world, "limit_reached", view=view, reasons=reasons, recommended="reject")
    page = text(browser(world.reviewer).get(f"/review/{gate.pk}/")).split("Exact content covered by the decision")[0]
    assert "Steps: 8 used, 8 allowed" in page
    assert "max_steps: 8" not in page
    assert "<dd>End the run</dd>" in page


@pytest.mark.spec("D3", "X5", "Q3")
@pytest.mark.parametrize("kind", ["limit_reached", "loop_detected"])
def test_the_bound_on_extensions_is_shown_before_one_is_granted(world: World, kind: str) -> None:
    view = {"limit": "max_steps", "used": 8, "bound": 8, "least": 9, "extensions_allowed": 20}
    button = {"limit_reached": "Extend and continue", "loop_detected": "Send guidance"}[kind]
    for used, said in ((3, "3 of 20 extensions used."), (19, "This would be the last."), (20, "all 20 extensions")):
        gate = open_gate(world, kind, view=view | {"extensions_used": used})
        page = text(browser(world.reviewer).get(f"/review/{gate.pk}/"))
        assert said in page
        assert (button in page) == (used < 20)
        assert "End the run" in page


@pytest.mark.spec("D3", "X5")
def test_whoever_extends_all_the_same_reads_why_not(world: World) -> None:
    view = {"limit": "max_steps", "used": 8, "bound": 8, "least": 9, "extensions_used": 20, "extensions_allowed": 20}
    gate = open_gate(world, "limit_reached", view=view)
    answer = post(browser(world.reviewer), gate, verdict="extend", extend="30")
    assert "all 20 extensions that its limits allow are used" in text(answer)
    assert not Decision.objects.exists()


@pytest.mark.spec("D3", "X5")
@pytest.mark.parametrize(
    "typed", ["NaN", "Infinity", "9" * 5_000, "true", "[40]", "many", ""], ids=lambda text: text[:9]
)
def test_an_extension_that_is_no_number_comes_back_at_its_field(world: World, typed: str) -> None:
    view = {"limit": "max_steps", "used": 8, "bound": 8, "least": 9, "extensions_used": 0, "extensions_allowed": 20}
    gate = open_gate(world, "limit_reached", view=view)
    answer = post(browser(world.reviewer), gate, verdict="extend", extend=typed)
    assert (answer.status_code, "Give a number." in text(answer)) == (422, True)
    assert not Decision.objects.exists()


ASKED = [
    *((kind, "") for kind in Gate.Kind.values),
    *(("loop_detected", f"?{query}") for query in ("risk=medium", "whose=open", "whose=claimed", "whose=decided")),
]


@pytest.mark.parametrize(("kind", "query"), ASKED)
def test_the_page_asks_ten_questions_however_many_wait(
    client: Client, kind: str, query: str, django_assert_max_num_queries: Any
) -> None:
    """For a member, session and person included; more gates than one page shows, and one of each sort in its card."""
    projects = [make.project() for _ in range(3)]
    member = make.user(reviewer=projects[0])
    for project, role in itertools.product(projects, ("operator", "admin")):
        Membership.objects.create(project=project, user=member, role=role)
    runs = [make.run(project) for project in projects]
    for number in range(1, 6):
        make.step(runs[0], number)
    view = {"limit": "max_steps", "used": 3, "bound": 3, "suggested": 5}
    view |= {"steps": [1, 2, 3]} if kind == "loop_detected" else {"steps": 3, "spent_usd": 0.5, "progress": 0.5}
    closed = {"status": "decided", "decided_at": timezone.now()} if "decided" in query else {}
    for number in range(42):
        make.gate(
            runs[number % 3], kind=kind, call_id=str(number), claimed_by=member, view=view, step_number=5, **closed
        )
    client.force_login(member)
    with django_assert_max_num_queries(10):
        page = client.get(f"/review/{query}")
    assert page.status_code == 200
    assert '<strong class="num">42</strong>' in text(page)


def test_every_list_tells_gates_of_one_deed_apart_by_their_task(world: World) -> None:
    runs = [make_run(world.project, world.author, f"Task {name}") for name in ("one", "two")]
    gates = [open_gate(world, run=run, call_id=f"call-{at}") for at, run in enumerate(runs)]
    for user, address in (
        (world.reviewer, "/review/"),
        (world.reviewer, "/"),
        (make.superuser(), "/admin/gates/gate/"),
    ):
        page = text(browser(user).get(address))
        for run in runs:
            assert run.task.title in page, address
    items = {"item": [f"{gate.pk}:{gate.digest}" for gate in gates], "verdict": "reject"}
    client = browser(world.reviewer)
    assert text(client.post("/review/bulk/", items)).count("Harbour · Task ") == 2
    done = text(client.post("/review/bulk/", {**items, "confirmed": "1", "reason": "no"}))
    assert "Write notes/today.md · Harbour · Task one" in done
    listed = client.get("/api/v1/gates/").json()["results"]
    assert {one["task"] for one in listed} == {"Task one", "Task two"}


def test_a_page_and_what_follows_a_decision_name_deed_and_task(world: World) -> None:
    gate = open_gate(world)
    client = browser(world.reviewer)
    assert "<title>Write notes/today.md · Harbour · Tidy the notes · Review" in text(client.get(f"/review/{gate.pk}/"))
    assert "Approved: Write notes/today.md · Harbour · Tidy the notes" in text(post(client, gate, htmx=True))


def test_a_refusal_names_the_task_in_whatever_letters(world: World) -> None:
    gate = open_gate(world, run=make_run(world.project, world.author, "Prüfe 発票"))
    refused = post(browser(world.viewer), gate, htmx=True)
    assert refused.status_code == 403
    assert "Write notes/today.md · Harbour · Prüfe 発票: " in unquote(refused["X-Message"])


@pytest.mark.parametrize("address", ["/review/list/", "/", "/api/v1/gates/"])
def test_naming_the_task_costs_no_query_a_row(world: World, address: str) -> None:
    client = browser(world.reviewer)

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        return len(queries)

    open_gate(world, call_id="call-0")
    asked()
    few = asked()
    for at in range(1, 5):
        open_gate(world, run=make_run(world.project, world.author), call_id=f"call-{at}")
    assert asked() == few
