"""The benchmark's own measures, and that its peers stay out of the application."""

from itertools import count

import pytest

from tests.bench import report, rivals
from tests.bench.long_run import size_mb
from tests.bench.work import Look, Marks


@pytest.fixture
def missed(monkeypatch) -> list[str]:
    monkeypatch.setattr(report, "MISSED", found := [])
    return found


def test_marks_count_what_happens_between_the_first_and_the_last_question():
    looks = count(1)
    marks = Marks(3, lambda: Look(wal=(number := next(looks)) * 100, commits=number, cpu=number / 4))
    assert [marks.ask() for _ in range(4)] == [1, 2, 3, 4]
    took = marks.took()
    assert (len(took.seconds), took.wal, took.commits, took.cpu) == (3, 100, 1, 0.25)


def test_a_figure_on_the_wrong_side_of_its_target_is_a_miss(missed):
    assert report.at_most("ratio", 2.0, 2.0) == "ratio 2.00 (target 2.00 or less: met)"
    assert report.at_least("share", 0.5, 0.5) == "share 0.50 (target 0.50 or more: met)"
    assert missed == []
    assert report.at_most("ratio", 2.1, 2.0) == "ratio 2.10 (target 2.00 or less: MISSED)"
    assert report.at_least("share", 0.4, 0.5) == "share 0.40 (target 0.50 or more: MISSED)"
    assert len(missed) == 2


def test_what_two_places_share_is_measured_once():
    text = "x" * 2**20
    assert 2 < size_mb([text, {"a": text}, "y" * 2**20]) < 2.01


def test_peers_that_are_not_installed_are_left_out_in_one_line(tmp_path, capsys):
    with rivals.running({}, tmp_path, environment=tmp_path) as peers:
        assert peers == {}
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_no_peer_is_a_dependency(lock):
    def names(file: str) -> set[str]:
        return {line.split("==")[0] for line in (rivals.ROOT / file).read_text().splitlines() if "==" in line}

    peers = {"langgraph", "langgraph-checkpoint-postgres", "dbos"}
    assert peers <= names("requirements-bench.lock")
    assert not peers & names(lock)
