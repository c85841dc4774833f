"""The command line: the same services, the same rules, one line for each refusal."""

import json
from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from loops.engine.facts import RunEnded, RunPaused, StopRequested
from loops.engine.state.lifecycle import Phase
from loops.management import run_follower
from loops.models import Agent, Fact, MailboxItem, Membership, Project, Run, Task
from loops.services import demo, models, people, tasks
from loops.storage.encoding import encode_fact
from loops.workspaces import patch


def agentops(*arguments):
    out = StringIO()
    call_command("agentops", *map(str, arguments), stdout=out)
    return out.getvalue().strip()


def submit(world, *more):
    return agentops("--as", "operator", "submit", "Mend it", "--project", "invoices", "--agent", "Mender", *more)


@pytest.mark.spec("T3")
def test_submit_prints_the_run(world):
    run = submit(
        world, "--criterion", "Tests pass :: make test", "--limit", "max_steps", "4", "--workspace", "Invoices"
    )
    task = Run.objects.get(pk=run).task
    assert task.criteria == [{"text": "Tests pass", "command": "make test"}]
    assert (task.limits, task.created_by, task.workspace) == ({"max_steps": 4}, world.operator, world.workspace)


@pytest.mark.spec("T3", "J6")
def test_submit_with_a_key_is_idempotent(world):
    assert submit(world, "--key", "k") == submit(world, "--key", "k")


@pytest.mark.spec("T3")
def test_an_amount_of_money_is_typed_in_dollars_and_what_is_no_number_is_refused(world):
    models.ModelConfig.objects.update(input_usd_per_mtok=1, output_usd_per_mtok=2)
    task = Run.objects.get(pk=submit(world, "--limit", "max_cost_usd", "2.50")).task
    assert task.limits == {"max_cost_microusd": 2_500_000}
    for typed in ("much", "nan", "inf", "-1"):
        with pytest.raises(CommandError, match=r"must be an amount from \$0 to \$100,000"):
            submit(world, "--limit", "max_cost_usd", typed)
    with pytest.raises(CommandError, match="criterion 2"):
        submit(world, "--criterion", "a", "--criterion", "b" * 3_000)


@pytest.mark.spec("T3", "S4")
def test_as_whom_may_stand_before_or_behind_the_verb(world):
    words = ("submit", "Mend it", "--project", "invoices", "--agent", "Mender")
    for typed in (("--as", "operator", *words), (*words, "--as", "operator")):
        assert Run.objects.get(pk=agentops(*typed)).task.created_by == world.operator
    assert Run.objects.get(pk=agentops(*words)).task.created_by.is_superuser
    with pytest.raises(CommandError, match="operator or admin"):
        agentops(*words, "--as", "reviewer")
    with pytest.raises(CommandError, match="operator or admin"):
        agentops("--as", "operator", *words, "--as", "reviewer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--as", "reviewer", "submit", "x", "--project", "invoices", "--agent", "Mender"), "operator or admin"),
        (("--as", "outsider", "submit", "x", "--project", "invoices", "--agent", "Mender"), "no project"),
        (("--as", "operator", "submit", "x", "--project", "invoices", "--agent", "Nobody"), "There are: Mender"),
        (("--as", "operator", "submit", " ", "--project", "invoices", "--agent", "Mender"), "goal: say what"),
        (("--as", "nobody", "runs"), "no user nobody"),
        (("watch", "01234567-89ab-7def-8123-456789abcdef"), "no run"),
    ],
)
def test_refusals_are_one_line(world, arguments, message):
    with pytest.raises(CommandError, match=message):
        agentops(*arguments)
    assert not Task.objects.exists()


@pytest.mark.spec("T3", "X5")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "No such file or directory"),
        (b"{", "not valid JSON"),
        (b'{"type": "object", "type": "string"}', "given twice"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_in_one_line(world, tmp_path, data, message):
    file = tmp_path / "schema.json"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(CommandError, match=f"--schema {file}: .*{message}"):
        submit(world, "--schema", str(file))
    assert not Task.objects.exists()


@pytest.mark.spec("T3", "K1")
def test_stop_and_message_reach_the_mailbox(world):
    run = world.run()
    agentops("--as", "operator", "message", run.pk, "Mind the totals")
    agentops("--as", "operator", "stop", run.pk)
    assert set(MailboxItem.objects.values_list("kind", flat=True)) == {"message", "stop"}
    with pytest.raises(CommandError, match="not paused"):
        agentops("--as", "operator", "resume", run.pk)


@pytest.mark.spec("T3")
def test_runs_are_listed_for_their_reader(world):
    run = world.run()
    world.run(Run.Status.FAILED)
    assert len(agentops("--as", "viewer", "runs").splitlines()) == 2
    assert json.loads(agentops("--as", "viewer", "runs", "--live", "--json"))["id"] == str(run.pk)
    assert agentops("--as", "outsider", "runs") == ""


@pytest.mark.spec("T3", "X4")
@pytest.mark.parametrize(
    ("final_status", "said"), [("contradicted", " (contradicted)"), ("finished", " (claimed)"), ("success", "")]
)
def test_a_run_is_listed_no_better_than_it_was_proved(world, final_status, said):
    Run.objects.filter(pk=world.run().pk).update(status=Run.Status.COMPLETED, final_status=final_status)
    (row,) = agentops("--as", "viewer", "runs").splitlines()
    assert row.endswith(f"{Run.objects.get().task.title}{said}")


def test_token_makes_a_new_token(world):
    first = agentops("token", "operator")
    assert agentops("token", "operator") != first
    assert first.startswith("ao_")


def record(run, *facts):
    from django.utils import timezone

    for seq, fact in enumerate(facts, 1):
        stored = encode_fact(fact, b"")
        values = {"kind": stored.kind, "body": stored.body, "hash": stored.hash, "prev": b"", "epoch": 1}
        Fact.objects.create(run=run, seq=seq, at=timezone.now(), **values)


ENDED = RunEnded(phase=Phase.HALT, reason="stopped", report={}, report_kind="HaltRecord")


@pytest.mark.spec("T3", "R2")
def test_watch_follows_to_the_end(world):
    run = world.run(Run.Status.INTERRUPTED)
    record(run, RunPaused(by="operator"), StopRequested(by="operator"), ENDED)
    shown = agentops("--as", "viewer", "watch", run.pk)
    assert "Paused, by operator" in shown
    assert "Stop requested, by operator" in shown
    assert shown.endswith("Stopped (no reason given)")
    Run.objects.filter(pk=run.pk).update(status=Run.Status.COMPLETED, end_reason="unproven")
    shown = agentops("--as", "viewer", "watch", run.pk)
    assert "Completed (unproven: Finished, not proven" in shown
    assert shown.startswith(f"Its questions are decided on its page: {patch.link(run)}   (Ctrl+C stops the run)")
    assert "take it over" not in shown, "it changed nothing"
    lines = agentops("--as", "viewer", "watch", run.pk, "--json").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3]


@pytest.mark.spec("K1", "T3")
def test_the_first_interrupt_stops_the_run_and_the_second_leaves(world, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_follower, "time", SimpleNamespace(sleep=interrupt))
    run, out = world.run(), StringIO()
    run_follower.RunFollower(run, world.operator, out, as_json=False).follow()
    assert MailboxItem.objects.get(run=run).kind == "stop"
    assert "again ends watching" in out.getvalue()


@pytest.mark.spec("K1", "S4")
def test_an_interrupt_by_somebody_without_a_role_stops_nothing(world, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_follower, "time", SimpleNamespace(sleep=interrupt))
    out = StringIO()
    run_follower.RunFollower(world.run(), world.viewer, out, as_json=False).follow()
    assert "operator or admin" in out.getvalue()
    assert not MailboxItem.objects.exists()


def test_seed_demo_may_run_twice_and_keeps_what_people_changed(db):
    call_command("seed_demo", "--users", verbosity=0)
    Agent.objects.filter(name="Thinks slowly").update(instructions="Changed by a person")
    call_command("seed_demo", "--users", "--runs", verbosity=0)
    call_command("seed_demo", "--runs", verbosity=0)
    project = Project.objects.get(slug="demo")
    assert project.agents.count() == len({example.agent for example in demo.EXAMPLES})
    assert Run.objects.count() == len(demo.EXAMPLES)
    assert sorted(MailboxItem.objects.values_list("kind", flat=True)) == ["pause", "stop"]
    assert project.agents.get(name="Thinks slowly").instructions == "Changed by a person"
    assert set(Membership.objects.filter(project=project).values_list("user__username", "role")) == {
        ("admin", "admin"),
        ("operator", "operator"),
        ("reviewer", "reviewer"),
    }
    copied = project.workspaces.get().path
    assert not copied.startswith(str(demo.REPOSITORY))
    assert (demo.Path(copied) / "README.md").exists()


def test_every_example_has_its_script_and_its_loop(db):
    for example in demo.EXAMPLES:
        assert demo.find_script(example.script).goal
    demo.seed()
    spec = tasks.run_spec(demo.submit_all(people.get_user_model().objects.create_superuser("root"))[0].run)
    assert spec["models"]["actor"] == "demo-repair-a-bug"


@pytest.mark.spec("S3")
def test_models_appear_with_their_keys_and_never_keep_them(db):
    environ = {"ANTHROPIC_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    models.ensure_default_models(environ)
    found = models.model_configs(environ)
    assert found["claude"].api_key == "sk-secret"
    assert (found["claude"].model_id, found["claude"].thinking) == (models.DEFAULT_CLAUDE, "adaptive")
    assert found["openai-compatible"].base_url == "http://127.0.0.1:1/v1"
    assert "sk-secret" not in repr(found)
    assert models.preferred().name == "claude"


@pytest.mark.spec("N1")
def test_verify_chain_says_intact_or_fails(world):
    out = StringIO()
    call_command("verify_chain", stdout=out)
    assert out.getvalue().startswith("Intact")
    record(world.run(), StopRequested(by="somebody"))
    with pytest.raises(CommandError, match="problems"):
        call_command("verify_chain", stderr=StringIO())


def test_verify_chain_knows_its_runs(db):
    with pytest.raises(CommandError, match="no run"):
        call_command("verify_chain", "01234567-89ab-7def-8123-456789abcdef")


def test_watching_does_not_wait_when_the_run_has_ended(world, monkeypatch):
    monkeypatch.setattr(run_follower.time, "sleep", lambda seconds: pytest.fail("it waited"))
    agentops("--as", "viewer", "watch", world.run(Run.Status.FAILED).pk)
