"""A failure that no rule was sure of is told with both verdicts, or with why there is only one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.state.failure import Recovery
from loops.engine.values import FailureKind
from loops.storage.encoding import encode_fact
from loops.web.notes import note_of
from tests import factories as make

HOSTILE = "it did not answer: <script>alert(1)</script>"


def failure(**more: Any) -> f.FailureClassified:
    return f.FailureClassified(
        step=1,
        call_id="c1.0",
        tool="plonk",
        kind=more.pop("kind", FailureKind.SYSTEMATIC),
        decision=Recovery.CONTINUE,
        rule="unknown",
        reason="So it is.",
        **more,
    )


@pytest.mark.spec("E1", "R1")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"certain": True}, "(rule unknown, attempt 1) The agent may"),
        ({"certain": False}, "attempt 1) No rule was sure. The agent may"),
        (
            {"model": "judge", "kind": FailureKind.TRANSIENT, "model_kind": FailureKind.TRANSIENT},
            "Rule unknown said systematic (not sure), model judge said transient (attempt 1). The agent may",
        ),
        (
            {"model": "judge", "problem": "it did not answer within 20 s"},
            "No rule was sure, and model judge gave no usable answer: it did not answer within 20 s. The agent may",
        ),
        (
            {"problem": "the run is ending"},
            "No rule was sure, and no model was asked: the run is ending. The agent may",
        ),
    ],
    ids=["sure", "before there was a second opinion", "settled", "no answer", "not asked"],
)
def test_both_verdicts_are_told(more: dict[str, Any], told: str) -> None:
    tied = {"certain": False, "rule_kind": FailureKind.SYSTEMATIC} if "certain" not in more else {}
    fact = failure(**tied, **more)
    note = note_of(1, "FailureClassified", datetime.now(UTC), encode_fact(fact, b"").body)
    assert note is not None
    assert told in note.text


@pytest.mark.spec("E1", "R1")
def test_what_a_provider_says_is_no_page(house: Any) -> None:
    make.step(house.run, 1)
    make.fact(house.run, failure(certain=False, rule_kind="systematic", model="judge", problem=HOSTILE), step=1)
    page = house.client("viewer").get(f"/runs/{house.run.pk}/").content.decode()
    assert "gave no usable answer: it did not answer: &lt;script&gt;" in page
    assert "<script>alert(1)" not in page
