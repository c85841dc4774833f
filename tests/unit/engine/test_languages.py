"""Whoever writes another language than English is treated alike: how hard a task looks, and likeness.

Stop phrases of many languages are in ``test_stop_phrases``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loops.engine.encoding.fingerprints import mark, result_mark, similarity
from loops.engine.limits.complexity import COMPLEX, MODERATE, SIMPLE, estimate
from loops.engine.loop_detection import detectors
from loops.engine.state.step_window import Seen
from loops.engine.text.segments import words_in
from loops.engine.values import ToolCall

COMPLEXITY = json.loads((Path(__file__).parents[2] / "data" / "languages_complexity.json").read_text())
CRITERIA = {"simple": 1, "moderate": 2, "complex": 3}

# --- complexity -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D2")
@pytest.mark.parametrize("kind", COMPLEXITY)
def test_the_same_task_is_as_hard_in_every_language(kind: str) -> None:
    level = kind.removeprefix("held out: ")
    found = {tongue: estimate(goal, ["x"] * CRITERIA[level]).level for tongue, goal in COMPLEXITY[kind].items()}
    assert {"en", "th", "vi", "id", "el", "he"} <= found.keys()
    assert set(found.values()) == {level}


@pytest.mark.spec("D2")
@pytest.mark.parametrize("criteria", [0, 1])
@pytest.mark.parametrize("kind", COMPLEXITY)
def test_more_than_one_thing_to_do_is_not_simple_without_criteria_either(kind: str, criteria: int) -> None:
    """Nor complex: to know how much it is takes the words, or what has to be proven."""
    found = {estimate(goal, ["x"] * criteria).level for goal in COMPLEXITY[kind].values()}
    assert found == {SIMPLE if kind == "simple" else MODERATE}


MIGRATION = {
    "en": ("Move the shop to PostgreSQL:\n{}", ("Move the schema", "Copy the orders", "Rewrite the queries", "Check the sums")),
    "zh": ("将商店迁移到 PostgreSQL：\n{}", ("迁移数据库结构", "复制订单", "重写查询", "检查总额")),
    "th": ("ย้ายร้านค้าไปยัง PostgreSQL:\n{}", ("ย้ายโครงสร้างฐานข้อมูล", "คัดลอกคำสั่งซื้อ", "เขียนคำสั่งค้นหาใหม่", "ตรวจสอบยอดรวม")),
    "vi": ("Chuyển cửa hàng sang PostgreSQL:\n{}", ("Chuyển lược đồ", "Sao chép đơn hàng", "Viết lại các truy vấn", "Kiểm tra tổng")),
    "el": ("Μετέφερε το κατάστημα στην PostgreSQL:\n{}", ("Μετέφερε το σχήμα", "Αντίγραψε τις παραγγελίες", "Ξαναγράψε τα ερωτήματα", "Έλεγξε τα σύνολα")),
    "he": ("העבר את החנות ל-PostgreSQL:\n{}", ("העבר את הסכמה", "העתק את ההזמנות", "כתוב מחדש את השאילתות", "בדוק את הסכומים")),
}  # fmt: skip
NUMBERS = {"en": "1234", "zh": "一二三四", "th": "๑๒๓๔", "vi": "1234", "el": "αβγδ", "he": "אבגד"}


@pytest.mark.spec("D2")
@pytest.mark.parametrize("tongue", MIGRATION)
def test_a_migration_in_steps_is_as_hard_in_any_script(tongue: str) -> None:
    goal, steps = MIGRATION[tongue]
    listed = goal.format("\n".join(f"{n}) {step}" for n, step in zip(NUMBERS[tongue], steps, strict=True)))
    assert estimate(listed).level == MODERATE
    assert estimate(listed, ["x", "y"], "-").level == COMPLEX
    assert estimate(steps[0]).level == SIMPLE


@pytest.mark.spec("D2")
def test_files_and_lists_are_enough_without_criteria() -> None:
    swedish = "Gör så här:\n" + "\n".join(f"{n}. Flytta modul {n} till src/m{n}.py" for n in range(1, 6))
    assert estimate(swedish).level == MODERATE
    assert estimate("Rätta stavfelet i README.md.").score == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a few words", 3),
        ("修复舍入错误", 3),
        ("これはペンです", 4),
        ("read 文件 a.py", 3),
        ("แก้คำที่สะกดผิด", 3),
        ("", 0),
    ],
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
