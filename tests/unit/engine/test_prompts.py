"""What the loop says to models lies in files, every place of it is filled, and journals keep the wording they had."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import loops
from loops.engine import facts as f
from loops.engine import prompts, strategies
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.pruning import NOTE_ROOM
from loops.engine.context_window.transcript import Transcript
from loops.engine.facts.encoding import read_fact
from loops.engine.failures.classify import classify
from loops.engine.failures.memory import failure_of_refusal
from loops.engine.prompts import FIRST, FOLDED, TODAY, Template
from loops.engine.state.spec import AgentRef
from loops.engine.values import FailureKind
from loops.llm.prompts import PROMPTS
from loops.services.prompts import classifier_prompt, prompt_versions, summary_prompt, system_prompt
from tests.fakes import spec

pytestmark = pytest.mark.spec("U3")
SOURCES = Path(loops.__file__).parent
OLD_JOURNAL = Path(__file__).with_name("journals") / "first_wording.json"
EVERY = TODAY.templates | PROMPTS.templates
PLACE = re.compile(r"\{\{ *[a-z_]+ *\}\}")


@cache
def calls() -> list[tuple[Path, ast.Call]]:
    """Every call in the code that speaks to models, but for the machinery of templates itself."""
    paths = [path for folder in ("engine", "driver") for path in sorted((SOURCES / folder).rglob("*.py"))]
    nodes = ((path, ast.walk(ast.parse(path.read_text()))) for path in paths if path.parent.name != "texts")
    return [(path, node) for path, found in nodes for node in found if isinstance(node, ast.Call)]


# --- every template and its callers ---------------------------------------------------------------------------------


@cache
def fillings() -> Mapping[str, list[set[str | None]]]:
    """Template -> the places that each of its callers gives values for."""
    found: dict[str, list[set[str | None]]] = {name: [] for name in TODAY.templates}
    for path, call in calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fill" and call.args:
            name = call.args[0]
            assert isinstance(name, ast.Constant), f"{path}:{call.lineno} names its template by something computed"
            found[str(name.value)].append({keyword.arg for keyword in call.keywords})
    return found


@pytest.mark.parametrize("name", TODAY.templates)
def test_every_text_is_said_by_somebody_who_fills_all_its_places(name: str) -> None:
    assert fillings()[name], f"nobody says {name}"
    for given in fillings()[name]:
        assert given == TODAY.templates[name].places


@pytest.mark.parametrize("loop", strategies.names())
@pytest.mark.parametrize("agent", [AgentRef("1", "coder", "{{instructions}}", "Say {{agent_name}}."), spec().agent])
def test_the_places_of_prompts_are_filled(agent: AgentRef, loop: str) -> None:
    system, version = system_prompt(spec(agent=agent, loop=loop))
    assert agent.name in system
    assert PLACE.findall(system.replace(agent.name, "").replace(agent.instructions or "None.", "")) == []
    assert version == PROMPTS.templates[loop].version
    summary, _ = summary_prompt("{{words}}")
    assert PLACE.findall(summary) == ["{{words}}"]
    assert PLACE.findall(classifier_prompt()[0]) == []


def test_a_place_without_a_value_and_a_value_without_a_place_are_errors() -> None:
    template = Template("p", "{{goal}} and {{ words }}\n")
    with pytest.raises(KeyError, match="words"):
        template.fill(goal="x")
    with pytest.raises(KeyError, match="extra"):
        template.fill(goal="x", words="y", extra="z")
    with pytest.raises(KeyError, match="nothing"):
        prompts.fill("nothing")


SAYING = {
    "Reminded": {"text"},
    "ReflectionForced": {"text"},
    "ToolRefused": {"message"},
    "Backtracked": {"summary"},
    "ContextPruned": {"summary"},
    "DiagnosisMade": {"feedback"},
    "ToolResult": {"content", "error"},
}
"""Fields of facts that a model reads; of ``say``, ``outcome``, ``text_block`` and ``_refuse`` it reads any argument."""
TELLING = {"say": 1, "outcome": 2, "text_block": 0, "_refuse": 2}


def literal(node: ast.AST) -> bool:
    """Does a sentence stand in the code itself?"""
    texts_of = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return any(len(text.split()) > 1 for text in texts_of)


def spoken(call: ast.Call) -> list[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    said = [keyword.value for keyword in call.keywords if keyword.arg in SAYING.get(name, ())]
    return said + (call.args[TELLING[name] : TELLING[name] + 1] if name in TELLING else [])


def test_no_sentence_for_models_stands_in_the_code() -> None:
    found = [f"{path.name}:{call.lineno}" for path, call in calls() for one in spoken(call) if literal(one)]
    assert found == []
    control = ast.parse('Reminded(reason="r", text=f"You have {n} steps left.")').body[0]
    assert isinstance(control, ast.Expr)
    assert isinstance(control.value, ast.Call)
    assert literal(spoken(control.value)[0])


@pytest.mark.parametrize("name", EVERY)
def test_a_value_is_never_read_as_a_template(name: str) -> None:
    """Every place holds the text of all other places; what comes out is the template's own text around them."""
    template = EVERY[name]
    hostile = "".join(f"{{{{{place}}}}}" for place in sorted(template.places)) + r"{{goal}} {goal} %s \1 \g<0> $goal"
    filled = template.fill(**dict.fromkeys(template.places, hostile))
    assert filled == hostile.join(PLACE.split(template.text))


# --- versions -------------------------------------------------------------------------------------------------------


def test_provenance_names_every_text_once_by_the_hash_of_its_file() -> None:
    assert not TODAY.templates.keys() & PROMPTS.templates.keys()
    assert prompt_versions() == {name: template.sha256 for name, template in EVERY.items()}
    folder = Path(prompts.__file__).parent
    files = {path.stem for path in folder.rglob("*.md") if not path.stem.endswith(".first")}
    assert files == TODAY.templates.keys()


@pytest.mark.parametrize("name", EVERY)
def test_another_byte_is_another_version(name: str) -> None:
    template = EVERY[name]
    for changed in (template.content + " ", template.content + "\n", template.content.swapcase()):
        assert replace(template, content=changed).sha256 != template.sha256
    assert template.content.endswith("\n")
    assert not template.text.endswith("\n")


def test_what_rules_know_the_loops_own_words_by_is_still_in_them() -> None:
    failure = failure_of_refusal("write_file", "void", prompts.fill("call_kept_changing"))
    assert failure is not None
    assert classify(failure).kind is FailureKind.CRITICAL


def test_a_shortened_result_is_not_shortened_again_for_the_note_in_it() -> None:
    for wording in (FIRST, FOLDED):
        note = wording.fill("left_out_here", characters="1,000,000", call="c10000.10")
        assert len(note) + len("\n\n") <= NOTE_ROOM


# --- journals -------------------------------------------------------------------------------------------------------


@cache
def old_journal() -> tuple[tuple[f.Fact, ...], list[Any]]:
    """Written before these texts were files: the facts, and the conversation they were."""
    stored = json.loads(OLD_JOURNAL.read_text())
    return tuple(read_fact(fact) for fact in stored["facts"]), stored["conversation"]


def conversation(facts: tuple[f.Fact, ...], wording: Mapping[str, str]) -> list[Any]:
    transcript = Transcript()
    first = facts[0]
    assert isinstance(first, f.RunStarted)
    for fact in (replace(first, wording=wording), *facts[1:]):
        transcript = extend(transcript, fact)
    return list(json.loads(json.dumps(list(transcript.messages))))


def test_an_old_journal_folds_to_the_conversation_it_was() -> None:
    facts, told = old_journal()
    assert conversation(facts, {}) == told


@pytest.mark.parametrize("name", FOLDED.templates)
def test_a_journal_is_folded_with_the_wording_in_its_first_fact(name: str) -> None:
    """The old journal has every text of the fold in it, so that a change of any is seen."""
    facts, told = old_journal()
    marked = f"MARK {FIRST.templates[name].content}"
    assert json.dumps(told).count("MARK") == 0
    assert "MARK" in json.dumps(conversation(facts, {name: marked}))


LATER = """
import json, pathlib, sys
from loops.engine import prompts
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding.replace import evolve
from loops.engine.facts.encoding import read_fact
stored = json.loads(pathlib.Path(sys.argv[1]).read_text())
def told(wording):
    first, *rest = [read_fact(fact) for fact in stored["facts"]]
    transcript = Transcript()
    for fact in (evolve(first, wording=wording), *rest):
        transcript = extend(transcript, fact)
    return json.loads(json.dumps(list(transcript.messages)))
began_before, now = json.loads(sys.argv[2]), prompts.TODAY.versions()
print(json.dumps({
    "old": told({}) == stored["conversation"],
    "began before": told(began_before) == stored["conversation"],
    "began now": "LATER" in json.dumps(told(prompts.FOLDED.contents())),
    "said now": prompts.fill("no_tool_call").startswith("LATER"),
    "changed": [name for name, version in now.items() if version != json.loads(sys.argv[3])[name]],
}))
"""


@pytest.mark.spec("J2")
def test_a_later_version_with_other_words_folds_journals_as_they_were(tmp_path: Path) -> None:
    """The engine as it would be with every text reworded, in a process of its own."""
    shutil.copytree(SOURCES / "engine", tmp_path / "loops/engine", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "loops/__init__.py").touch()
    for template in TODAY.templates.values():
        (path,) = (tmp_path / "loops/engine/prompts").rglob(f"{template.name}.md")
        path.write_text(f"LATER {template.content}")
        if path.parent.name == "folded":
            path.with_name(f"{template.name}.first.md").write_text(FIRST.templates[template.name].content)
    ran = subprocess.run(
        [sys.executable, "-c", LATER, str(OLD_JOURNAL), json.dumps(FIRST.contents()), json.dumps(TODAY.versions())],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    seen = json.loads(ran.stdout)
    assert seen.pop("changed") == list(TODAY.templates)
    assert seen == {"old": True, "began before": True, "began now": True, "said now": True}
