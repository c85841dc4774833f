"""What the service says of a call before anything runs: precise, bound, audited (SPEC I1 to I3, Q5)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.ports import Judgement, Tools, Verified
from loops.engine.values import Access, Reversibility, ToolCall, ToolResult, ToolSpec
from loops.tools.arguments import schema, string
from loops.tools.builtin import builtin_registry
from loops.tools.canonical import digest
from loops.tools.limits import Limits
from loops.tools.policy import AccessRule
from loops.tools.registry import Arguments, RegistrationError, Tool, ToolRegistry, ToolRun
from loops.tools.sandbox.capability import SandboxLevel
from tests.unit.tools.harness import Desk

ASK_ALL = [AccessRule(Access.ASK)]


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "name", ["Shell", "run_command ", "run_command\0", "r\u0435ad_file", "READ_FILE", "", "__doc__"]
)
def test_only_exact_names_exist(tmp_path: Path, name: str) -> None:
    """Row 15: case, blanks, NUL and a Cyrillic letter do not find a tool; the answer lists what there is."""
    desk = Desk(tmp_path)
    judgement = desk.judge(name)
    assert judgement.access is Access.DENY
    assert judgement.invalid
    assert "the tools are: apply_diff, ask_question, converse" in judgement.reasons[0]
    assert not desk.run(name).ok


@pytest.mark.spec("I3")
@pytest.mark.parametrize("paths", [("a", "kept/b"), ("kept/a", "b")])
def test_of_all_that_a_call_touches_the_strictest_rule_decides(tmp_path: Path, paths: tuple[str, str]) -> None:
    allowed = AccessRule(Access.ALLOW, tool="move_file")
    desk = Desk(tmp_path, [allowed, AccessRule(Access.DENY, tool="move_file", paths=("kept/*",))])
    (desk.workspace / "kept").mkdir()
    for path in ("a", "kept/a"):
        (desk.workspace / path).write_text("x")
    source, target = paths
    assert desk.judge("move_file", path=source, target=target).access is Access.DENY
    assert desk.judge("move_file", path="a", target="c").access is Access.ALLOW


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({}, "'path' is a required property"),
        ({"path": ["a"]}, "/path: ['a'] is not of type 'string'"),
        ({"path": "a", "__class__": "x"}, "'__class__' was unexpected"),
        ({"path": "a", "offset": 0}, "/offset: 0 is less than the minimum of 1"),
        ({"path": "a", "offset": True}, "/offset: True is not of type 'integer'"),
        ({"path": "a", "offset": 2**60}, "/offset: integer beyond 2^53"),
        ({"path": "a\ud800"}, "/path: text has a lone surrogate"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tmp_path: Path, arguments: dict[str, Any], part: str) -> None:
    """Row 16."""
    judgement = Desk(tmp_path).judge("read_file", **arguments)
    assert (judgement.access, judgement.invalid) == (Access.DENY, True)
    assert part in " | ".join(judgement.reasons)


@pytest.mark.spec("I2")
def test_a_deep_or_a_long_argument_is_refused_at_once(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(1_000):
        deep = {"a": deep}
    desk = Desk(tmp_path, limits=Limits(arguments_bytes=1_000))
    assert "nested deeper than 64" in desk.judge("read_file", path=deep).reasons[0]
    assert "the limit is 1000" in desk.judge("write_file", path="a", content="x" * 2_000).reasons[0]


@pytest.mark.spec("C3", "I2")
def test_a_call_that_could_not_be_parsed_keeps_its_reason(tmp_path: Path) -> None:
    """Row 17: the adapter refuses a duplicate key; nothing runs with what is left of the arguments."""
    desk = Desk(tmp_path)
    call = ToolCall("c", "run_command", {"command": "ls"}, error="duplicate key 'command'")
    judgement = asyncio.run(desk.service.judge(call, desk.context))
    assert (judgement.access, judgement.reasons) == (Access.DENY, ("duplicate key 'command'",))
    assert not asyncio.run(desk.service.execute(call, desk.context, desk.heard)).ok


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"$ref": "http://evil.example/schema"}}},
        {"type": "object", "properties": {"a": {"type": "strange"}}},
        {"type": "object", "patternProperties": {"(?=a)b": {}}},
        {"type": "object", "properties": {"a": {"pattern": "(?!a)"}}},
    ],
)
def test_schemas_that_reach_out_or_hang_are_not_registered(parameters: Any) -> None:
    with pytest.raises(RegistrationError):
        ToolRegistry().add(Tool(ToolSpec("x", "", parameters)))


def test_a_name_is_taken_once_and_is_plain() -> None:
    """Row 21."""
    registry = builtin_registry()
    for name in ("read_file", "a b", "", "x" * 65, "é"):
        with pytest.raises(RegistrationError):
            registry.add(Tool(ToolSpec(name, "", schema())))


def test_a_pattern_in_a_schema_cannot_hang() -> None:
    registry = ToolRegistry([Tool(ToolSpec("x", "", schema(a=string("", pattern="^(a+)+$"))))])
    found = registry.get("x")
    assert found is not None
    assert "does not match" in found.validator.errors({"a": "a" * 3_000 + "!"})[0]


@pytest.mark.spec("I3")
def test_asking_says_which_rule_and_what_exactly(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ASK_ALL, matrix=())
    (desk.workspace / "a.txt").write_text("one\n")
    judgement = desk.judge("write_file", path="a.txt", content="two\n")
    assert (judgement.access, judgement.gate_kind, judgement.risk) == (Access.ASK, "tool_approval", "medium")
    assert judgement.reasons == ("access matrix for 'a.txt': ask before any tool",)
    assert judgement.view["diff"] == "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
    assert (desk.workspace / "a.txt").read_text() == "one\n"
    assert desk.events[-1]["event"] == "tool.judged"
    assert desk.events[-1]["access"] == "ask"


@pytest.mark.spec("O1")
def test_irreversible_calls_always_ask_with_their_own_gate(tmp_path: Path) -> None:
    async def pay(arguments: Arguments, run: ToolRun) -> ToolResult:
        return ToolResult(ok=True, content="paid")

    spec = ToolSpec("pay", "", schema(), reversibility=Reversibility.IRREVERSIBLE)
    desk = Desk(tmp_path, [AccessRule(Access.ALLOW, "coder", "pay")], registry=ToolRegistry([Tool(spec, pay)]))
    judgement = desk.judge("pay")
    assert (judgement.access, judgement.gate_kind) == (Access.ASK, "irreversible_action")


def _subject(desk: Desk, name: str, **arguments: Any) -> dict[str, Any]:
    return desk.service.subject(desk.call(name, **arguments), desk.context)


@pytest.mark.spec("Q5")
def test_every_change_of_what_would_happen_changes_the_subject(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ASK_ALL, matrix=())
    script = desk.workspace / "run.sh"
    script.write_text("echo one\n")
    original = _subject(desk, "run_command", command="bash run.sh", timeout_s=5)
    assert original == dict(desk.judge("run_command", command="bash run.sh", timeout_s=5).subject)
    digests = {digest(original)}

    digests.add(digest(_subject(desk, "run_command", command="bash run.sh ", timeout_s=5)))
    digests.add(digest(_subject(desk, "run_command", command="bash run.sh", timeout_s=6)))
    digests.add(digest(_subject(desk, "run_command", argv=["bash", "run.sh"], timeout_s=5)))
    changes: list[dict[str, Any]] = [{"run_id": "run-2"}, {"step": 4}, {"environment": {"A": "1"}}]
    for change in changes:
        desk.context, kept = replace(desk.context, **change), desk.context
        digests.add(digest(_subject(desk, "run_command", command="bash run.sh", timeout_s=5)))
        desk.context = kept
    script.write_text("echo two\n")
    digests.add(digest(_subject(desk, "run_command", command="bash run.sh", timeout_s=5)))
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = Desk(other, ASK_ALL, matrix=())
    (elsewhere.workspace / "run.sh").write_text("echo one\n")
    digests.add(digest(_subject(elsewhere, "run_command", command="bash run.sh", timeout_s=5)))
    assert len(digests) == 9


def test_the_same_action_has_the_same_subject(tmp_path: Path) -> None:
    """The control of the test above."""
    desk = Desk(tmp_path, ASK_ALL, matrix=())
    first = _subject(desk, "run_command", command="ls", timeout_s=5)
    assert digest(first) == digest(_subject(desk, "run_command", timeout_s=5, command="ls"))


def test_subject_of_a_write_binds_to_the_file_before(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ASK_ALL, matrix=())
    before = _subject(desk, "write_file", path="a", content="x")
    (desk.workspace / "a").write_text("changed meanwhile")
    assert digest(before) != digest(_subject(desk, "write_file", path="a", content="x"))


@pytest.mark.spec("I3", "O1")
def test_without_a_rule_commands_and_deletions_ask(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "a").write_text("x")
    assert desk.judge("run_command", command="ls").access is Access.ASK
    assert desk.judge("run_tests").access is Access.ASK
    assert desk.judge("delete_file", path="a").access is Access.ASK


@pytest.mark.spec("I7")
@pytest.mark.parametrize(
    ("level", "command", "write"),
    [
        (3, Access.ALLOW, Access.ALLOW),
        (2, Access.ASK, Access.ALLOW),
        (1, Access.DENY, Access.ALLOW),
        (0, Access.DENY, Access.DENY),
    ],
)
def test_a_weaker_sandbox_permits_less(tmp_path: Path, level: int, command: Access, write: Access) -> None:
    allowed = (AccessRule(Access.ALLOW, "coder", operation="execute"),)
    desk = Desk(tmp_path, allowed, level=SandboxLevel(level, "test", (), "it is weak"))
    assert desk.judge("run_command", command="ls").access is command
    assert desk.judge("run_tests").access is command
    assert desk.judge("write_file", path="a", content="x").access is write
    assert ("run_command" in {spec.name for spec in desk.service.specs()}) is (level > 1)
    if level < 2:
        assert not desk.shell("touch made").ok
        assert not (desk.workspace / "made").exists()


@pytest.mark.spec("I3")
def test_what_is_denied_does_not_run_when_called_directly(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.DENY, tool="write_file", note="frozen")])
    result = desk.run("write_file", path="a", content="x")
    assert not result.ok
    assert "frozen" in result.error
    assert not (desk.workspace / "a").exists()
    assert [event["event"] for event in desk.events] == ["tool.executed"]


@pytest.mark.spec("I3")
def test_what_can_only_be_denied_is_not_offered(tmp_path: Path) -> None:
    frozen = [AccessRule(Access.DENY, operation="delete"), AccessRule(Access.DENY, tool="write_file", paths=("a/**",))]
    offered = {spec.name for spec in Desk(tmp_path, frozen).service.specs()}
    assert "delete_file" not in offered
    assert "write_file" in offered


@pytest.mark.spec("C3")
@pytest.mark.parametrize("name", ["task_completion", "ask_question", "converse"])
def test_tools_that_end_a_step_are_offered_and_never_run(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path)
    spec = next(spec for spec in desk.service.specs() if spec.name == name)
    assert spec.loop_breaking
    field = str(spec.parameters["required"][0])  # type: ignore[index,call-overload]
    assert desk.judge(name, **{field: "text"}).access is Access.ALLOW
    assert "ends the step and is not executed" in desk.run(name, **{field: "text"}).error


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run_command", {}),
        ("run_command", {"command": "ls", "argv": ["ls"]}),
        ("apply_diff", {"path": "a"}),
        ("apply_diff", {"path": "a", "diff": "x", "edits": [{"search": "a", "replace": "b"}]}),
    ],
)
def test_either_or_is_explained(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    judgement = Desk(tmp_path).judge(name, **arguments)
    assert judgement.invalid
    assert "not both or none" in judgement.reasons[0]


def test_an_edit_that_does_not_fit_is_refused_before_a_person_is_asked(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ASK_ALL, matrix=())
    (desk.workspace / "a").write_text("one\n")
    judgement = desk.judge("apply_diff", path="a", edits=[{"search": "two", "replace": "x"}])
    assert (judgement.access, judgement.invalid) == (Access.DENY, True)


@pytest.mark.spec("J2")
def test_verify_asks_the_disk(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    def verify(name: str, **arguments: Any) -> Verified:
        return asyncio.run(desk.service.verify(desk.call(name, **arguments), desk.context))

    assert verify("write_file", path="a", content="x") is Verified.NOT_DONE
    desk.run("write_file", path="a", content="x")
    assert verify("write_file", path="a", content="x") is Verified.DONE
    edits = [{"search": "x", "replace": "y"}]
    assert verify("apply_diff", path="a", edits=edits) is Verified.NOT_DONE
    desk.run("apply_diff", path="a", edits=edits)
    assert verify("apply_diff", path="a", edits=edits) is Verified.DONE
    assert verify("move_file", path="a", target="b") is Verified.NOT_DONE
    desk.run("move_file", path="a", target="b")
    assert verify("move_file", path="a", target="b") is Verified.DONE
    assert verify("delete_file", path="b") is Verified.NOT_DONE
    assert verify("make_directory", path="d") is Verified.NOT_DONE
    assert verify("run_command", command="ls") is Verified.UNKNOWN


@pytest.mark.spec("V1")
def test_judging_takes_less_than_counting_to_fifty_thousand(tmp_path: Path) -> None:
    """About two milliseconds. Both are measured in turns, of the processor, and the quickest of many tries counts."""
    desk = Desk(tmp_path, [AccessRule(Access.ALLOW, tool=f"tool_{number}") for number in range(50)])
    (desk.workspace / "a.py").write_text("x = 1\n" * 100)
    call = desk.call("read_file", path="a.py")

    async def many() -> tuple[float, float]:
        judging, counting = [], []
        for _ in range(100):
            started = time.process_time()
            await desk.service.judge(call, desk.context)
            judged = time.process_time()
            sum(number * number for number in range(50_000))
            judging.append(judged - started)
            counting.append(time.process_time() - judged)
        return min(judging), min(counting)

    judging, counting = asyncio.run(many())
    assert judging < counting, (judging, counting)


def test_judgement_names_its_policy(tmp_path: Path) -> None:
    judgement: Judgement = Desk(tmp_path).judge("list_files")
    assert judgement.policy_version == "policy-1"
    assert judgement.subject["policy_version"] == "policy-1"


def test_packages_add_tools_and_a_broken_one_does_not_stop_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        value, dist = "acme:register", None

        def __init__(self, name: str, *, works: bool) -> None:
            self.name, self.works = name, works

        def load(self) -> Any:
            if not self.works:
                raise ImportError("half installed")
            return lambda registry: registry.add(Tool(ToolSpec(self.name, "", schema())))

    entries = [Entry("extra", works=True), Entry("broken", works=False)]
    monkeypatch.setattr("loops.engine.packages.entry_points", lambda group: entries)
    registry = builtin_registry()
    (broken,) = registry.load_entry_points()
    assert (broken.kind, broken.name, broken.reason) == ("tool", "broken", "ImportError: half installed")
    assert registry.broken == [broken]
    assert "extra" in registry.names()


def test_the_service_is_the_port(tmp_path: Path) -> None:
    port: Tools = Desk(tmp_path).service
    assert {spec.name for spec in port.specs()} == set(builtin_registry().names()) - {"restore_files"}


def test_the_view_of_run_tests_holds_the_command_it_found(tmp_path: Path) -> None:
    """Neither the project's command nor the paths behind it stand in the arguments of the call."""
    desk = Desk(tmp_path)
    (desk.workspace / ".agentops.toml").write_text("[tests]\ncommand = 'make check'\n")
    assert desk.judge("run_tests", paths=["a test.py"]).view["command"] == "make check 'a test.py'"


def test_a_diff_that_is_cut_says_how_long_the_whole_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "rows").write_text("a b\n" * 120_000)
    edits = [{"search": "a", "replace": "c", "everywhere": True}]
    view = desk.judge("apply_diff", path="rows", edits=edits).view
    assert isinstance(view["diff_chars"], int)
    assert view["diff_chars"] > len(str(view["diff"])) > 400_000
    assert "diff_chars" not in desk.judge("write_file", path="small", content="x").view


@pytest.mark.spec("Q5")
def test_what_was_judged_with_other_variables_does_not_run(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ASK_ALL, matrix=(), environment={"MODE": "safe"})
    desk.judge("run_command", command="echo $MODE")
    desk.context, judged = replace(desk.context, environment={"MODE": "other"}), desk.context
    refused = desk.run("run_command", command="echo $MODE")
    assert (refused.ok, refused.error) == (
        False,
        "changed since it was approved: the variables of the workspace; ask again",
    )
    desk.context = judged
    assert desk.run("run_command", command="echo $MODE").content.strip().endswith("safe")
