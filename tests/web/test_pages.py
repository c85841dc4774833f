"""What pages say: states, empty lists, hostile text, and how little they ask of the database."""

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from django.urls import reverse

from loops.engine import facts as f
from loops.engine.state.lifecycle import TABLE, Phase
from loops.models import Run, Task
from loops.web import lifecycle_diagram, markdown
from tests import factories as make
from tests.web import story

SESSION_AND_USER = 2
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> [x](javascript:alert(1)) ![p](http://evil/p?d=1) "
    '<a hx-get="/x"> <svg onload=alert(1)> <b style="x">'
)


class Danger(HTMLParser):
    """Collects whatever in a page could act on its own or reach another site unasked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("img", "iframe", "object", "embed", "style", "base") or (tag == "script" and "src" not in given):
            self.found.append(f"<{tag}>")
        for name, value in given.items():
            acts = name.startswith("on") or name == "style" or (name.startswith("hx-") and value == "/x")
            if acts or (name in ("href", "src") and "javascript:" in (value or "")):
                self.found.append(f"<{tag} {name}={value!r}>")


def dangers(page: str) -> list[str]:
    parser = Danger()
    parser.feed(page)
    return parser.found


def text_of(response) -> str:
    return response.content.decode()


@pytest.mark.spec("A2")
@pytest.mark.parametrize("status", Run.Status.values)
def test_each_state_has_its_label(house, status):
    Run.objects.filter(pk=house.run.pk).update(status=status)
    page = text_of(house.client("operator").get(reverse("runs")))
    assert Run.Status(status).label in page


def test_three_different_empty_lists(house):
    client = house.client("outsider")
    assert "No runs yet" in text_of(client.get(reverse("runs")))
    assert "No run matches" in text_of(client.get(reverse("runs"), {"q": "zzz"}))
    assert "Fix the rounding" in text_of(house.client("operator").get(reverse("runs")))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "ROUNDING"}, True),
        ({"q": "100%"}, False),
        ({"state": "live"}, True),
        ({"state": "completed"}, False),
        ({"state": "nonsense"}, True),
        ({"agent": "nobody"}, False),
        ({"before": "nonsense"}, True),
        ({"q": "a\0b"}, False),
    ],
)
def test_runs_are_filtered_by_the_address(house, query, found):
    page = text_of(house.client("operator").get(reverse("runs"), query))
    assert ("Fix the rounding" in page) is found


@pytest.mark.spec("W1", "R5")
def test_who_could_not_go_on_alone_is_found_and_says_why(house):
    why = "Low confidence: 0.42, below 0.50 <b>"
    stuck = make.run(make.task(house.project, title="Mend the totals"), status="waiting", escalation_reason=why)
    client = house.client("operator")
    found = text_of(client.get(reverse("runs"), {"state": "stuck"}))
    assert "Mend the totals" in found
    assert "below 0.50 &lt;b&gt;" in found
    assert "Fix the rounding" not in found
    assert "below 0.50 &lt;b&gt;" in text_of(client.get(reverse("run", args=[stuck.pk])))
    assert "Escalated</dt>" not in text_of(client.get(reverse("run", args=[house.run.pk])))


def test_runs_are_paged_by_key(house):
    task = make.task(house.project, agent=house.run.agent, created_by=house.operator)
    for _ in range(60):
        make.run(task)
    client = house.client("operator")
    first = client.get(reverse("runs"))
    older = re.search(r'href="\?(before=[0-9a-f-]+)"', text_of(first))[1]
    second = text_of(client.get(f"{reverse('runs')}?{older}"))
    ids = re.findall(r'id="run-([0-9a-f-]{36})"', text_of(first) + second)
    assert len(ids) == len(set(ids)) == 61
    assert ids == sorted(ids, reverse=True)


def test_the_list_of_runs_asks_four_questions(house, django_assert_max_num_queries):
    for _ in range(12):
        make.run(make.task(house.project, created_by=house.operator))
    client = house.client("operator")
    with django_assert_max_num_queries(4 + SESSION_AND_USER):
        client.get(reverse("runs"))


def test_a_trace_asks_the_same_however_long_it_is(house, django_assert_max_num_queries):
    story.begin(house.run)
    for number in range(1, 70):
        make.step(house.run, number)
        make.tool_call(house.run, number)
    client = house.client("operator")
    with django_assert_max_num_queries(15 + SESSION_AND_USER):  # two of them draw the curve, one is the policy
        page = client.get(reverse("run", args=[house.run.pk]))
    assert len(page.content) < 200_000
    numbers = [int(n) for n in re.findall(r'<li id="step-(\d+)"', text_of(page)) if int(n)]
    assert numbers == list(range(20, 70))


@pytest.mark.spec("R3")
def test_earlier_steps_join_without_gap_or_double(house):
    for number in range(1, 121):
        make.step(house.run, number)
    client = house.client("operator")
    seen: list[int] = []
    address = reverse("run", args=[house.run.pk])
    while address:
        page = text_of(client.get(address))
        numbers = [int(n) for n in re.findall(r'<li id="step-(\d+)"', page) if int(n)]
        seen = numbers + seen
        more = re.search(r'"before": "(\d+)"', page)
        before = int(more[1]) if more else 0
        address = f"{reverse('run-earlier', args=[house.run.pk])}?before={before}" if before else ""
    assert seen == list(range(1, 121))


@pytest.mark.spec("R1")
def test_a_trace_shows_everything_that_happened(house):
    story.tell(house.run)
    page = text_of(house.client("operator").get(reverse("run", args=[house.run.pk])))
    for text in ("13 passed, 1 failed", "denies network", "Please keep the public signature", "overloaded (529)",
                 "Steps nearly used up", "Waiting for approval", "Run: make deploy", "ROUND_HALF_UP"):  # fmt: skip
        found = page + text_of(house.client("operator").get(reverse("run-step", args=[house.run.pk, 3])))
        assert text in found, text


@pytest.mark.parametrize(
    ("phase", "reason", "report", "shown"),
    [
        (Phase.COMMIT, "criteria_met", {"result": "It is **done**."}, "It is <strong>done</strong>."),
        (
            Phase.COMMIT,
            "criteria_met",
            {"result": "It is done."},
            "Recorded before AgentOps distinguished proof from acceptance",
        ),
        (Phase.COMMIT, "unproven", {"result": "It is done.", "evidence": "claimed"}, "own claim: no check proved it"),
        (Phase.COMMIT, "unproven", {"result": "It is done.", "evidence": "claimed"}, "Finished, not proven"),
        (Phase.FAIL, "max_steps", {"diagnosis": "Went in circles.", "not_done": ["tests"]}, "Went in circles."),
        (Phase.HALT, "operator_stop", {"resume": {"step": 5}}, "resumed at step 5"),
    ],
)
@pytest.mark.spec("A5")
def test_every_end_shows_what_it_left(house, phase, reason, report, shown):
    story.begin(house.run)
    story.end(house.run, phase, reason, **report)
    assert shown in text_of(house.client("viewer").get(reverse("run", args=[house.run.pk])))


def hostile_run(house) -> Run:
    Task.objects.filter(pk=house.run.task_id).update(title=HOSTILE[:190], goal=HOSTILE)
    run = Run.objects.select_related("task", "agent", "project").get(pk=house.run.pk)
    story.begin(run)
    make.step(run, 1, reasoning=HOSTILE, said=HOSTILE, error=HOSTILE)
    diff = f"--- a/{HOSTILE}\n+++ b/{HOSTILE}\n@@ -1 +1 @@ {HOSTILE}\n-{HOSTILE}\n+{HOSTILE}\n"
    make.tool_call(
        run, 1, tool="x" * 20, arguments={HOSTILE[:60]: HOSTILE}, output=HOSTILE, error=HOSTILE, data={"diff": diff}
    )
    story.answer(run, 1, HOSTILE, HOSTILE, name="read_file", arguments={"path": HOSTILE})
    make.fact(run, f.MessageReceived(text=HOSTILE, by=HOSTILE), step=1)
    make.gate(run, title=HOSTILE, step_number=1)
    story.end(run, Phase.FAIL, "max_steps", diagnosis=HOSTILE, partial_output=HOSTILE, done=[HOSTILE])
    return run


@pytest.mark.parametrize("name", ["run", "run-files", "run-conversation", "run-provenance", "run-raw", "run-lifecycle"])
def test_hostile_text_is_inert(house, name):
    run = hostile_run(house)
    page = text_of(house.client("operator").get(reverse(name, args=[run.pk])))
    assert "alert(1)" in page
    assert dangers(page) == []


def test_lists_and_search_keep_hostile_titles_inert(house):
    hostile_run(house)
    for name in ("runs", "overview", "find"):
        assert dangers(text_of(house.client("operator").get(reverse(name)))) == []


def test_markdown_keeps_its_good_parts_only():
    html = markdown.markdown(HOSTILE + "\n\n**bold** `code` [docs](https://example.org)\n\n| a |\n| - |\n| b |")
    assert dangers(html) == []
    assert "<strong>bold</strong>" in html
    assert "<table>" in html
    assert 'rel="noopener noreferrer nofollow"' in html


def test_pages_forbid_inline_code(house):
    response = house.client("operator").get(reverse("run", args=[house.run.pk]))
    policy = response["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert '"allowEval": false' in text_of(response)


def test_whole_output_is_a_download_never_a_page(house):
    from loops.models import Artifact, Blob

    body = HOSTILE.encode()
    Blob.objects.create(sha256="a" * 64, size=len(body), body=body)
    Artifact.objects.create(run=house.run, seq=1, kind="output", name='x"\r\n.html', sha256="a" * 64, size=len(body))
    response = house.client("viewer").get(reverse("run-output", args=[house.run.pk, "a" * 64]))
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"] == 'attachment; filename="x___.html"'
    assert b"".join(response.streaming_content) == body
    other = make.run(house.project)
    assert house.client("viewer").get(reverse("run-output", args=[other.pk, "a" * 64])).status_code == 404
    Artifact.objects.create(run=house.run, seq=2, kind="output", name="pruned", sha256="b" * 64, size=9)
    assert house.client("viewer").get(reverse("run-output", args=[house.run.pk, "b" * 64])).status_code == 404


@pytest.mark.spec("A1")
def test_the_lifecycle_is_drawn_from_the_table(house):
    drawn = {arrow.events.split(":")[0] for arrow in lifecycle_diagram.draw("ACT", []).arrows}
    assert drawn == {f"{source} → {target}" for (source, _), target in TABLE.items()}
    story.begin(house.run)
    page = text_of(house.client("viewer").get(reverse("run-lifecycle", args=[house.run.pk])))
    assert "Act: now" in page
    assert "Gather evidence: passed" in page
    assert "Repair: not reached" in page


@pytest.mark.spec("N1")
def test_verify_tells_a_whole_record_from_a_damaged_one(house):
    story.begin(house.run)
    client, address = house.client("viewer"), reverse("run-verify", args=[house.run.pk])
    for answer in (client.post(address, headers={"HX-Request": "true"}), client.post(address)):
        said = text_of(answer)
        assert "Verified: " in said
        assert "match their own hashes" in said
        assert f"<code>agentops verify_chain {house.run.pk}</code>: it compares with the anchor" in said
    Run.objects.filter(pk=house.run.pk).update(head_seq=99)
    assert "Hash mismatch." in text_of(client.post(address, headers={"HX-Request": "true"}))


@pytest.mark.spec("R4")
def test_conversation_and_raw_show_what_is_stored(house):
    story.tell(house.run)
    client = house.client("viewer")
    said = text_of(client.get(reverse("run-conversation", args=[house.run.pk])))
    assert "You are a careful engineer." in said
    raw = text_of(client.get(reverse("run-raw", args=[house.run.pk])))
    assert "RunStarted" in raw
    assert "MessageReceived" in raw


def test_the_badge_counts_what_the_list_shows(house):
    for number in range(3):
        make.gate(house.run, call_id=f"c{number}")
    make.gate(house.run, call_id="done", status="approved")
    make.gate(make.run(house.elsewhere))
    for who, count in (("reviewer", 3), ("outsider", 0)):
        page = text_of(house.client(who).get(reverse("badge")))
        assert re.search(r"(\d+)<span", page)[1] == str(count)


@pytest.mark.spec("V2")
def test_overview_figures(house):
    now = datetime.now(UTC)
    Run.objects.filter(pk=house.run.pk).update(total_cost_usd="1.25", cost_unknown=True)
    for status in ("completed", "completed", "completed", "failed"):
        make.run(house.project, status=status, completed_at=now, end_reason="max_steps")
    for minutes in (1, 2, 30):
        opened = now - timedelta(minutes=minutes)
        make.gate(house.run, call_id=f"c{minutes}", status="approved", opened_at=opened, decided_at=now)
    page = text_of(house.client("operator").get(reverse("overview")))
    assert "≥ $1.25" in page
    assert "75 %" in page
    assert "2 min" in page
    assert "The step limit was reached and not extended" in page


def test_scripted_runs_say_so(house):
    Run.objects.filter(pk=house.run.pk).update(scripted=True)
    assert "Scripted model" in text_of(house.client("viewer").get(reverse("run", args=[house.run.pk])))


def test_steering_buttons_fit_the_state(house):
    client = house.client("operator")
    address = reverse("run", args=[house.run.pk])
    assert 'value="stop"' in text_of(client.get(address))
    assert 'value="stop"' not in text_of(house.client("viewer").get(address))
    Run.objects.filter(pk=house.run.pk).update(status="completed")
    page = text_of(client.get(address))
    assert 'value="stop"' not in page
    assert "This run has ended" in page


def test_a_refused_order_says_why(house):
    Run.objects.filter(pk=house.run.pk).update(status="completed")
    client = house.client("operator")
    response = client.post(
        reverse("run-steer", args=[house.run.pk]), {"action": "stop"}, headers={"HX-Request": "true"}
    )
    assert response.status_code == 422  # so that a form keeps what was typed
    assert "already ended" in json.loads(response["HX-Trigger"])["say"]["text"]


def test_the_overview_says_how_many_decisions_it_leaves_out(house):
    for number in range(8):
        make.gate(house.run, call_id=f"c{number}", title=f"Thing {number}")
    page = text_of(house.client("admin").get("/"))
    assert "2 more wait for you" in page
