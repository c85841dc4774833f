"""Submitting tasks: one key, one run; every fault named; every refusal recorded."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from loops.models import AuditEvent, Run, Task
from loops.services import tasks
from loops.services.access import NotAllowed
from loops.storage import dispatch
from tests.integration.services.world import closing_connections

LONE_SURROGATE = "\ud800"


def test_a_submission_makes_a_task_and_a_queued_run(world):
    made = world.submit(goal="Mend the totals\nof all invoices", criteria=["Totals add up"])
    run = Run.objects.get(pk=made.run.pk)
    assert made.created
    assert (run.status, run.runnable, run.scripted, run.workspace_path) == ("queued", True, True, "")
    assert run.policy_version.startswith("v")
    assert made.task.title == "Mend the totals"
    assert made.task.criteria == [{"text": "Totals add up", "command": ""}]
    assert AuditEvent.objects.filter(kind="task.submitted", run=run, actor=world.operator).count() == 1


def test_a_submission_rings_the_bell_once_after_the_commit(world, django_capture_on_commit_callbacks, monkeypatch):
    rung = []
    monkeypatch.setattr(dispatch, "dispatch", lambda job, after, run_id: rung.append((job, run_id)))
    with django_capture_on_commit_callbacks(execute=True):
        run = world.submit().run
        assert rung == []
    assert rung == [(dispatch.JOB, str(run.pk))]


@pytest.mark.spec("J6")
def test_the_same_key_and_content_give_the_first_submission_back(world):
    first = world.submit(idempotency_key="k")
    again = world.submit(idempotency_key="k", title="Another title decides nothing")
    assert (again.created, again.run.pk) == (False, first.run.pk)
    assert Task.objects.count() == 1


@pytest.mark.spec("J6")
@pytest.mark.parametrize("other", [{"goal": "Something else"}, {"limits": {"max_steps": 3}}, {"criteria": ["More"]}])
def test_the_same_key_with_other_content_is_a_conflict(world, other):
    world.submit(idempotency_key="k")
    with pytest.raises(tasks.IdempotencyConflict):
        world.submit(idempotency_key="k", **other)
    assert AuditEvent.objects.filter(kind="task.idempotency_conflict").count() == 1


@pytest.mark.spec("J6")
def test_a_key_belongs_to_one_person(world):
    mine = world.submit(idempotency_key="k")
    hers = world.submit(idempotency_key="k", actor=world.admin)
    assert mine.run.pk != hers.run.pk


@pytest.mark.spec("J6")
def test_fifty_submissions_at_once_make_one_run(committed_world):
    submit = closing_connections(lambda key: committed_world.submit(idempotency_key=key))
    for key in ("a", "b", "c"):
        with ThreadPoolExecutor(50) as pool:
            made = list(pool.map(submit, [key] * 50))
        assert len({one.run.pk for one in made}) == 1
        assert sum(one.created for one in made) == 1
    assert Run.objects.count() == 3


@pytest.mark.spec("J6")
def test_content_is_deduplicated_only_when_asked_and_only_against_completed_runs(world):
    running = world.submit()
    other = world.submit(dedupe_content=True)
    assert other.created
    Run.objects.filter(pk=running.run.pk).update(status=Run.Status.COMPLETED)
    assert world.submit(dedupe_content=True).run.pk == running.run.pk
    assert world.submit().created


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("who", "may"),
    [("operator", True), ("admin", True), ("root", True), ("reviewer", False), ("viewer", False), ("outsider", False)],
)
def test_operators_and_admins_submit(world, who, may):
    if may:
        assert world.submit(actor=getattr(world, who)).created
        return
    with pytest.raises(NotAllowed, match="operator or admin"):
        world.submit(actor=getattr(world, who))
    assert AuditEvent.objects.filter(kind="access.refused", actor=getattr(world, who)).count() == 1
    assert not Task.objects.exists()


def test_a_member_who_was_switched_off_may_do_nothing(world):
    world.operator.is_active = False
    with pytest.raises(NotAllowed):
        world.submit()


BAD = {
    "empty goal": ({"goal": "  \n"}, "goal"),
    "goal of a megabyte": ({"goal": "x" * 1_000_000}, "goal"),
    "NUL": ({"goal": "a\0b"}, "goal"),
    "lone surrogate": ({"constraints_text": LONE_SURROGATE}, "constraints_text"),
    "goal is no text": ({"goal": 7}, "goal"),
    "too many criteria": ({"criteria": ["x"] * 51}, "criteria"),
    "long criterion": ({"criteria": ["x" * 2_001]}, "criteria[0].text"),
    "long command": ({"criteria": [{"text": "t", "command": "x" * 4_001}]}, "criteria[0].command"),
    "NUL in a command": ({"criteria": [{"text": "t", "command": "ls\0"}]}, "criteria[0].command"),
    "unknown field of a criterion": ({"criteria": [{"text": "t", "approved": True}]}, "criteria[0]"),
    "empty criterion": ({"criteria": [{"text": ""}]}, "criteria[0]"),
    "unknown limit": ({"limits": {"max_gpus": 1}}, "limits.max_gpus"),
    "limit too small": ({"limits": {"max_steps": 0}}, "limits.max_steps"),
    "limit too large": ({"limits": {"max_steps": 10**9}}, "limits.max_steps"),
    "limit is a boolean": ({"limits": {"max_steps": True}}, "limits.max_steps"),
    "limit is infinite": ({"limits": {"max_cost_usd": float("inf")}}, "limits.max_cost_microusd"),
    "no schema": ({"output_schema": {"type": "wrong"}}, "output_schema"),
    "schema reaches out": ({"output_schema": {"$ref": "http://169.254.169.254/"}}, "output_schema"),
    "schema with NaN": ({"output_schema": {"minimum": float("nan")}}, "output_schema"),
    "unknown loop": ({"execution_loop": "endless"}, "execution_loop"),
    "unknown complexity": ({"complexity": "trivial"}, "complexity"),
    "unknown review": ({"final_review": "maybe"}, "final_review"),
    "long key": ({"idempotency_key": "k" * 201}, "idempotency_key"),
    "key with a line break": ({"idempotency_key": "a\nb"}, "idempotency_key"),
}


@pytest.mark.parametrize(("fields", "field"), BAD.values(), ids=BAD)
def test_bad_content_is_refused_by_field(world, fields, field):
    with pytest.raises(tasks.InvalidTask) as caught:
        world.submit(**fields)
    assert list(caught.value.errors) == [field]
    assert not Task.objects.exists()


def test_a_schema_nested_without_end_is_refused(world):
    schema = {}
    for _ in range(1_000):
        schema = {"items": schema}
    with pytest.raises(tasks.InvalidTask, match="nested deeper"):
        world.submit(output_schema=schema)


def test_all_faults_are_named_at_once(world):
    with pytest.raises(tasks.InvalidTask) as caught:
        world.submit(goal="", limits={"x": 1}, complexity="?")
    assert set(caught.value.errors) == {"goal", "limits.x", "complexity"}


def test_agents_and_workspaces_of_other_projects_are_refused(world):
    foreign = world.elsewhere.agents.get()
    with pytest.raises(tasks.InvalidTask) as caught:
        world.submit(agent=foreign)
    assert "agent" in caught.value.errors


@pytest.mark.spec("D2")
@pytest.mark.parametrize(("level", "steps", "seconds", "failures"), [
    ("simple", 20, 600, 3), ("moderate", 25, 900, 5), ("complex", 100, 1800, 5),
])  # fmt: skip
def test_profiles_set_the_limits(world, level, steps, seconds, failures):
    run = world.submit(complexity=level).run
    limits = tasks.run_spec(run)["limits"]
    assert (limits["max_steps"], limits["max_seconds"], limits["max_failures"]) == (steps, seconds, failures)
    assert run.max_steps == steps


@pytest.mark.spec("D2")
def test_stated_limits_override_the_profile(world):
    run = world.submit(limits={"max_steps": 7, "max_cost_usd": 0.5}).run
    limits = tasks.run_spec(run)["limits"]
    assert (run.max_steps, limits["max_steps"], limits["max_cost_microusd"]) == (7, 7, 500_000)


@pytest.mark.spec("D2")
def test_complexity_is_estimated_and_explained(world):
    spec = tasks.run_spec(world.submit(goal="Migrate the entire archive", criteria=["a"] * 6).run)
    assert spec["complexity"] == "complex"
    assert "6 acceptance criteria" in spec["complexity_reason"]


def test_the_specification_is_what_the_engine_reads(world):
    from loops.engine.encoding.codec import from_plain
    from loops.engine.state.spec import RunSpec

    made = world.submit(criteria=[{"text": "works", "command": "make test"}])
    spec = from_plain(RunSpec, tasks.run_spec(made.run))
    assert (spec.goal, spec.loop, spec.policy_version) == ("Mend it", "react", made.run.policy_version)
    assert spec.criteria[0].command == "make test"
    assert spec.limits.warn_at == 0.8
    assert spec.models["actor"] == "demo-scripted"
