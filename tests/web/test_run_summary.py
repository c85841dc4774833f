"""The head of a run answers: what is it doing, why, how far is it, what would stop it next (SPEC A2, D3, G1)."""

import pytest
from django.urls import reverse

from loops.engine.state.measures import REPORTED
from loops.models import Run, Step
from loops.web.limits_bar import Meter
from loops.web.run_summary import outlook
from tests import factories as make

STEPS = Meter("Steps", 14, 20, "14 of 20")
TOKENS = Meter("Tokens", 9_000, 10_000, "9k of 10k")
TESTS = {"calls": [{"tool": "run_command", "arguments": {"command": "pytest -q tests/test_totals.py"}}]}


def run(**fields):
    return Run(**{"status": "thinking", "total_steps": 14, "progress": 0.0, **fields})


def step(**fields):
    return Step(**{"step_number": 14, "reasoning": "", "said": "", **fields})


@pytest.mark.spec("A2", "R1")
@pytest.mark.parametrize("status", Run.Status.values)
def test_every_state_says_what_is_being_done(status):
    waits = {"waiting": make.waiting("gate", "tool_approval"), "executing_tool": {"waiting_on": "run_command"}}
    said = outlook(run(status=status, **waits.get(status, {})), None, [STEPS])
    assert said.doing
    assert "_" not in said.doing


def test_a_call_under_way_is_told_with_what_it_works_on():
    running = run(status="executing_tool", waiting_on="run_command")
    assert outlook(running, step(action=TESTS), [STEPS]).doing == "Run command: pytest -q tests/test_totals.py"


@pytest.mark.spec("A2")
def test_a_decision_that_the_run_has_not_heard_of_yet_is_told():
    decided = run(status="waiting", **make.waiting("gate", "tool_approval"))
    assert outlook(decided, step(), [STEPS], is_asked=False).doing == "Continues in a moment"
    newer = run(status="waiting", **make.waiting("newer_worker", words="a worker of a newer version"))
    assert "a newer version" in outlook(newer, step(), [STEPS], is_asked=False).doing


def test_a_backoff_is_not_told_as_thinking():
    said = outlook(run(waiting_on="model not reachable, trying again"), step(), [STEPS])
    assert said.doing == "Model not reachable, trying again"


def test_the_reason_is_the_models_own_words_cut_to_a_line():
    said = outlook(run(), step(said="The total is wrong\nbecause of rounding. " + "x" * 500), [STEPS])
    assert said.why.startswith("The total is wrong because of rounding.")
    assert len(said.why) <= 220


@pytest.mark.spec("G1")
def test_progress_says_how_it_was_measured():
    said = outlook(run(progress=0.625), step(validation={"progress": 0.625, "method": "tests"}), [STEPS])
    assert (said.percent, said.measured) == (62, "by tests")
    assert outlook(run(), step(validation={"method": "none"}), [STEPS]).measured == "not measured yet"
    reported = step(validation={"progress": 0.9, "method": REPORTED})
    assert outlook(run(progress=0.9), reported, [STEPS]).measured == "by tests that a command reported"


@pytest.mark.spec("G1", "X5")
def test_a_run_that_had_nothing_to_prove_does_not_stand_at_zero_percent():
    said = outlook(run(status="completed", end_reason="no_criteria"), step(), [STEPS])
    assert (said.percent, said.measured) == (None, "no criteria to measure progress by")
    assert outlook(run(status="failed", end_reason="max_steps"), step(), [STEPS]).percent == 0


@pytest.mark.spec("D3")
def test_the_bound_that_is_nearest_is_named():
    assert outlook(run(), step(), [STEPS, TOKENS]).stops == "Tokens: 9k of 10k used"


@pytest.mark.parametrize("status", ["waiting", "paused"])
def test_nothing_stops_a_run_that_rests(status):
    assert outlook(run(status=status, **make.waiting("gate", "question")), step(), [TOKENS]).stops.startswith(
        "None while"
    )


def test_an_ended_run_says_why_it_ended_and_expects_nothing_more():
    said = outlook(run(status="failed", end_reason="loop_detected"), step(), [STEPS])
    assert said.doing.startswith("The agent was stuck in a loop")
    assert said.stops == ""


def test_the_page_shows_the_four_answers(house):
    page = house.client("operator").get(reverse("run", args=[house.run.pk])).content.decode()
    for question in ("Now", "Progress", "Next limit"):
        assert f"<dt>{question}</dt>" in page
