"""Known secrets, in whatever is written or shown (SPEC S3): masked whole, however they come, and nothing else is."""

from __future__ import annotations

import logging

import pytest

from agentops.logs import Json, Line
from loops import masking
from loops.engine import facts as f
from loops.engine.ports import ModelError
from loops.engine.values import ToolResult
from loops.llm.transport_errors import http_failure
from loops.masking import Masker, StreamMasker, holds_mark, of_environment
from loops.tools.output import show

pytestmark = pytest.mark.spec("S3")
SECRET = 'planted/"value"-0123456789'
SIGN = "[masked: ODD_KEY]"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_masker", Masker({"ODD_KEY": SECRET}))


def test_it_is_masked_in_every_spelling() -> None:
    assert masking.known().text(f"a {SECRET} b") == f"a {SIGN} b"
    assert masking.known().text('{"a": "planted/\\"value\\"-0123456789"}') == f'{{"a": "{SIGN}"}}'
    assert masking.known().text("?key=planted%2F%22value%22-0123456789") == f"?key={SIGN}"


def test_facts_are_masked_to_the_ground_and_untouched_ones_stay_the_same() -> None:
    result = ToolResult(ok=True, content=SECRET, data={"seen": [SECRET, 1], SECRET: None})
    fact = f.ToolCompleted(call_id="c", tool="read_file", result=result)
    masked = masking.known().value(fact)
    assert SECRET not in repr(masked)
    assert masked.result.data == {"seen": [SIGN, 1], SIGN: None}
    assert fact.result.content == SECRET
    plain = f.ToolCompleted(call_id="c", tool="read_file", result=ToolResult(ok=True, content="plain"))
    assert masking.known().value(plain) is plain


@pytest.mark.parametrize("size", range(1, len(SECRET) + 2))
def test_a_stream_never_shows_a_part_of_it(size: int) -> None:
    text = f"before {SECRET} after"
    stream = StreamMasker()
    shown = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*shown, stream.finish()]) == f"before {SIGN} after"


def test_a_beginning_that_comes_to_nothing_is_shown() -> None:
    stream = StreamMasker()
    assert stream.feed("plant") + stream.feed("s grow, plant") + stream.finish() == "plants grow, plant"


def test_outputs_are_masked_before_they_are_cut_or_kept() -> None:
    kept: list[bytes] = []
    data = b"x" * 500 + SECRET.encode() + b"y" * 500

    def save(whole: bytes) -> str:
        kept.append(whole)
        return "0" * 64

    shown = show(data, 1010, save)  # a cut would go through it
    assert SECRET[:8] not in shown.text
    assert all(SECRET[:8].encode() not in whole for whole in kept)


def test_errors_of_providers_and_logs_are_masked() -> None:
    error: ModelError = http_failure(400, {"error": {"message": f"you sent {SECRET}"}}, {})
    assert SIGN in str(error)
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "said %s", (SECRET,), None)
    record.more = [SECRET]
    for formatter in (Line(), Json()):
        assert "0123456789" not in formatter.format(record)


@pytest.mark.parametrize("value", ["", "short", "password", "PostgreS", "aaaaaaaaaaaa"])
def test_short_and_common_values_are_left_alone_and_named(value: str) -> None:
    masker = Masker({"A_PASSWORD": value})
    assert masker.text(f"the {value} of all") == f"the {value} of all"
    assert masker.weak == (["A_PASSWORD"] if value else [])


@pytest.mark.parametrize("value", ["/etc/keys/of-mine", "1000000000000"])
def test_paths_and_numbers_are_no_secrets(value: str) -> None:
    assert Masker({"A_KEY": value}).text(f"a {value}") == f"a {value}"


def test_what_the_environment_holds() -> None:
    given = {"MY_TOKEN": "t", "api_key": "k", "PATH": "/bin", "DATABASE_URL": "postgres://me:pass%2Fword-1@host/db"}
    assert of_environment(given) == {"MY_TOKEN": "t", "api_key": "k", "DATABASE_URL_PASSWORD": "pass/word-1"}


def test_the_sign_is_known_wherever_it_stands() -> None:
    assert holds_mark({"a": [{"b": f"x {SIGN}"}]})
    assert not holds_mark({"a": ["masked: ODD_KEY"]})


def test_what_is_nested_without_end_stops_nobody() -> None:
    plain: object = "plain"
    deep: object = SECRET
    for _ in range(20_000):
        plain, deep = [plain], [deep]
    assert masking.known().value(plain) is plain
    masked, levels = masking.known().value(deep), 0
    while isinstance(masked, list):
        masked, levels = masked[0], levels + 1
    assert holds_mark(masked)
    assert levels < 100
