"""Versions of policies: any change to what decides makes one, and nothing else does."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from loops.engine.state.limits import FIELD_OF, LIMITS
from loops.models import AccessRule, ComplexityProfile, Policy, PolicyVersion
from loops.services import policies
from tests.integration.services.world import closing_connections


@pytest.mark.spec("S1")
def test_a_new_project_has_a_policy_and_a_matrix(world):
    rules = {rule.operation: rule.access for rule in policies.access_rules(world.project)}
    assert rules == {"read": "allow", "write": "allow", "delete": "ask", "execute": "ask", "network": "ask"}
    assert Policy.objects.filter(project=world.project).exists()


@pytest.mark.spec("D1", "D2")
def test_a_profile_has_the_bounds_of_the_table_of_limits():
    of_limits = {one.name: one for one in ComplexityProfile._meta.get_fields() if one.name in FIELD_OF}
    assert "max_cost_usd" in of_limits
    for name, field in of_limits.items():
        row = LIMITS[FIELD_OF[name]]
        bounds = {one.code: one.limit_value for one in field.validators if hasattr(one, "limit_value")}
        assert bounds["min_value"] * row.scale == row.low, name
        assert bounds["max_value"] * row.scale == row.high, name


@pytest.mark.spec("S1")
def test_nothing_changed_means_the_same_version(world):
    assert policies.current_version(world.project) == policies.current_version(world.project)


def _tighten(world):
    Policy.objects.filter(project=world.project).update(final_review="always")


def _deny(world):
    AccessRule.objects.filter(project=world.project, operation="write").update(access="deny")


def _limit(world):
    ComplexityProfile.objects.filter(name="simple").update(max_steps=5)


def _instruct(world):
    world.project.agents.update(instructions="Be brief.")


def _remodel(world):
    world.agent.actor_model.max_tokens = 5
    world.agent.actor_model.save()


@pytest.mark.spec("S1")
@pytest.mark.parametrize("change", [_tighten, _deny, _limit, _instruct, _remodel])
def test_every_change_to_what_decides_makes_a_version(world, change):
    before = policies.current_version(world.project)
    change(world)
    after = policies.current_version(world.project, actor=world.admin, reason="Because of the audit")
    newest = PolicyVersion.objects.filter(project=world.project).first()
    assert before != after
    assert after == f"v{newest.number}:{newest.sha256[:12]}"
    assert (newest.reason, newest.created_by) == ("Because of the audit", world.admin)


@pytest.mark.spec("S1")
def test_a_run_keeps_the_version_it_was_submitted_under(world):
    first = world.submit().run
    _deny(world)
    second = world.submit().run
    assert first.policy_version != second.policy_version


@pytest.mark.spec("S1")
def test_versions_are_numbered_without_gap_under_concurrency(committed_world):
    _tighten(committed_world)
    current = closing_connections(policies.current_version)
    before = PolicyVersion.objects.filter(project=committed_world.project).count()
    with ThreadPoolExecutor(12) as pool:
        names = set(pool.map(current, [committed_world.project] * 12))
    assert len(names) == 1
    assert PolicyVersion.objects.filter(project=committed_world.project).count() == before + 1
