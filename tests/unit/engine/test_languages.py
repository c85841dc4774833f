"""Whoever writes another language than English is understood as well: stop, doubt, complexity and likeness.

The sentences in ``tests/data/languages_*.json`` were written apart from the tables, and run on them once before
anything was put right (docs/termination.md has the figures of that first look).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.confidence.score import due
from loops.engine.confidence.uncertainty import doubt
from loops.engine.encoding.fingerprints import mark, result_mark, similarity
from loops.engine.languages import LANGUAGES
from loops.engine.languages.stop_phrases import TONGUES
from loops.engine.languages.uncertainty import DOUBTING
from loops.engine.limits.complexity import MODERATE, SIMPLE, estimate
from loops.engine.loop_detection import detectors
from loops.engine.people.stop_phrases import wants_to_stop
from loops.engine.state.spec import ConfidenceTerms
from loops.engine.state.step_window import Seen
from loops.engine.text.segments import words_in
from loops.engine.values import ToolCall
from loops.tools.builtin import completion
from tests.fakes import World, done, says

DATA = Path(__file__).parents[2] / "data"


def table(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"languages_{name}.json").read_text())  # type: ignore[no-any-return]


STOPPING, DOUBT, COMPLEXITY = map(table, ("stopping", "doubt", "complexity"))
CRITERIA = {"simple": 1, "moderate": 2, "complex": 3}


def each(of: Mapping[str, Sequence[str]]) -> list[Any]:
    return [pytest.param(text, id=f"{tongue}-{n}") for tongue, texts in of.items() for n, text in enumerate(texts)]


def test_every_table_speaks_every_language() -> None:
    assert {"en", *TONGUES} == {"en", *DOUBTING} == set(LANGUAGES)
    for sentences in (STOPPING["wishes"], STOPPING["others"], DOUBT["doubts"], DOUBT["sure"], *COMPLEXITY.values()):
        assert set(sentences) == set(LANGUAGES)


# --- stop -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize("text", [*each(STOPPING["wishes"]), *STOPPING["more wishes"]])
def test_a_plain_wish_to_stop_is_understood(text: str) -> None:
    assert wants_to_stop(text)


@pytest.mark.spec("D1")
@pytest.mark.parametrize("text", [*each(STOPPING["others"]), *STOPPING["more others"]])
def test_a_server_that_is_to_be_stopped_is_no_wish_nor_is_its_opposite(text: str) -> None:
    assert not wants_to_stop(text)


@pytest.mark.spec("D1")
@pytest.mark.parametrize("thing", ["nginx", "Docker", "server 3"])
@pytest.mark.parametrize("tongue", LANGUAGES)
def test_a_wish_with_an_object_behind_it_is_for_the_agent_to_read(tongue: str, thing: str) -> None:
    for wish in STOPPING["wishes"][tongue]:
        assert not wants_to_stop(f"{wish.rstrip('.!?。！？؟।')} {thing}")


# --- doubt ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("G2")
@pytest.mark.parametrize("text", each(DOUBT["doubts"]))
def test_an_agent_that_says_it_is_uncertain_is_heard(text: str) -> None:
    assert doubt(text)


@pytest.mark.spec("G2")
@pytest.mark.parametrize("text", each(DOUBT["sure"]))
def test_what_only_sounds_uncertain_is_not(text: str) -> None:
    assert not doubt(text)


@pytest.mark.spec("G2", "C3")
def test_a_model_has_a_word_of_its_own_for_it_in_any_language() -> None:
    """Swahili is in no table; the field of the tools that end a step needs none."""
    asks = ("ask_question", {"question": "Faili gani?", "unsure": "Sijui ni faili gani."})
    run = World([says("", ("look", {})), says("Nitauliza.", asks), done()])
    assert run.drive() == "gate:question"
    assert run.state.unsure == "Sijui ni faili gani."
    terms = ConfidenceTerms(every_steps=50)
    state = replace(run.state, gate=None, spec=replace(run.state.spec, confidence=terms))
    assert due(state) == "uncertain"
    assert due(replace(state, unsure="")) == ""
    for tool in completion.TOOLS:
        assert "unsure" in tool.spec.parameters["properties"]  # type: ignore[operator]
        assert "unsure" not in tool.spec.parameters["required"]  # type: ignore[operator]


def test_only_the_tools_that_end_a_step_have_that_word() -> None:
    run = World([says("", ("look", {"unsure": "x"})), says("", ("ask_question", {"question": "?", "unsure": 7}))])
    run.drive()
    assert run.state.unsure == ""


# --- complexity -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D2")
@pytest.mark.parametrize("kind", COMPLEXITY)
def test_the_same_task_is_as_hard_in_every_language(kind: str) -> None:
    level = kind.removeprefix("held out: ")
    found = {tongue: estimate(goal, ["x"] * CRITERIA[level]).level for tongue, goal in COMPLEXITY[kind].items()}
    other = {tongue for tongue, estimated in found.items() if estimated != level}
    assert other <= ({"nl"} if kind == "held out: moderate" else set())


@pytest.mark.spec("D2")
@pytest.mark.parametrize(
    "goal",
    [
        "Address the remark about her fixtures here.", "The cream of the interoperable entrance heroes.",
        "Tell me the port in the settings.", "Sag mir, welcher Port eingestellt ist.", "Powiedz mi, jaki port jest tu.",
        "Скажи, какой порт настроен.", "告诉我设置的端口。", "設定されているポートを教えてください。", "설정된 포트를 알려 주세요.",
        "أخبرني ما هو المنفذ المحدد.", "मुझे सेट किया गया पोर्ट बताएँ।", "Ayarlı portu söyle.",
    ],
)  # fmt: skip
def test_words_within_other_words_make_nothing_hard(goal: str) -> None:
    assert estimate(goal).score == 0


@pytest.mark.spec("D2")
def test_what_knows_no_language_is_enough_for_languages_of_no_table() -> None:
    swedish = "Gör så här:\n" + "\n".join(f"{n}. Flytta modul {n} till src/m{n}.py" for n in range(1, 6))
    thai = "ย้ายฐานข้อมูลทั้งหมดและเขียนคำสั่งใหม่ ทดสอบทุกอย่าง " * 20
    assert estimate(swedish).level == MODERATE
    assert estimate(thai, ["x"] * 3).level == MODERATE
    assert estimate("Rätta stavfelet i README.md.").level == SIMPLE


@pytest.mark.parametrize(
    ("text", "words"), [("a few words", 3), ("修复舍入错误", 3), ("これはペンです", 4), ("read 文件 a.py", 3), ("", 0)]
)
def test_words_are_counted_without_spaces_between_them(text: str, words: int) -> None:
    assert words_in(text) == words


# --- likeness ---------------------------------------------------------------------------------------------------------

NEAR = {
    "zh": ("我打开了配置文件，但是没有找到数据库的端口设置。", "我打开了配置文件，但是没有找到服务器的端口设置。"),
    "ja": (
        "設定ファイルを開きましたが、ポートは見つかりませんでした。",
        "設定ファイルを読みましたが、ポートは見つかりませんでした。",
    ),
    "ko": (
        "데이터베이스 설정 파일을 열었지만 포트를 찾지 못했습니다",
        "데이터베이스 설정 파일을 읽었지만 포트를 찾지 못했습니다",
    ),
    "th": ("ฉันเปิดไฟล์การตั้งค่าแล้วแต่ไม่พบพอร์ตของฐานข้อมูล", "ฉันอ่านไฟล์การตั้งค่าแล้วแต่ไม่พบพอร์ตของฐานข้อมูล"),
    "hi": ("मैंने सेटिंग फ़ाइल खोली लेकिन पोर्ट नहीं मिला", "मैंने सेटिंग फ़ाइल पढ़ी लेकिन पोर्ट नहीं मिला"),
}
FAR = "今天天气很好，孩子们在公园里放风筝，老人们在下棋，没有人谈论工作。"


@pytest.mark.spec("F2", "F3")
@pytest.mark.parametrize("tongue", NEAR)
def test_two_sentences_that_are_nearly_the_same_are_alike_in_any_script(tongue: str) -> None:
    one, other = map(mark, NEAR[tongue])
    assert similarity(one, other) > 0.6
    assert similarity(one, mark(FAR)) < 0.2


@pytest.mark.spec("F3")
def test_a_circle_in_chinese_is_found_like_one_in_english() -> None:
    told = [f"我再看一次第{n}个配置文件，但是仍然没有找到数据库的端口设置，所以继续寻找。" for n in "一二三四"]
    steps = [
        Seen(n, mark(text), result_mark("没有找到任何匹配的内容，请检查搜索的条件。" + text))
        for n, text in enumerate(told, 1)
    ]
    assert detectors.semantic(tuple(steps)) is not None


def test_a_call_is_known_by_its_characters_too() -> None:
    calls = [ToolCall("", "search", {"for": text}) for text in NEAR["zh"]]
    one, other = (mark(str(dict(call.arguments))) for call in calls)
    assert similarity(one, other) > 0.6
