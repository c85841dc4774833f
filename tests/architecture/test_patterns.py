"""Python's ``re`` runs only patterns that stand in the code; those of other people are RE2's, in linear time."""

import ast
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
CALLS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn", "template"}
OWN = {
    "loops/engine/text/segments.py": 3,
    "loops/engine/tool_calls/xml_calls.py": 2,
    "loops/llm/context_overflow.py": 2,
    "loops/tools/runners.py": 1,
}
"""How often a file makes a pattern of parts, all of which stand in the code (or are escaped)."""
DOORS = {
    "jsonschema": {"loops.engine.encoding.json_schema"},
    "re2": {"loops.engine.text.patterns", "loops.tools.git_ignore", "loops.tools.globs"},
}


@pytest.mark.spec("S3")
def test_no_pattern_of_other_people_reaches_re() -> None:
    found: dict[str, int] = {}
    for folder in ("agentops", "loops", "gates"):
        for file in (ROOT / folder).rglob("*.py"):
            made = [call for call in ast.walk(ast.parse(file.read_text())) if _runs(call) and not _written(call)]
            if made:
                found[str(file.relative_to(ROOT))] = len(made)
    assert found == OWN


def _runs(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in CALLS


def _written(call: ast.AST) -> bool:
    assert isinstance(call, ast.Call)
    return bool(call.args) and isinstance(call.args[0], ast.Constant)


@pytest.mark.spec("S3")
@pytest.mark.parametrize("library", DOORS)
def test_one_door_to_what_judges_them(library: str) -> None:
    """A second validator would run patterns by ``re`` again; ``fnmatch`` and ``from re import`` are ways around."""
    graph = grimp.build_graph("agentops", "loops", "gates", include_external_packages=True, cache_dir=None)
    assert graph.find_modules_that_directly_import(library) == DOORS[library]
    for other in {"fnmatch", "regex"} & graph.modules:
        assert not graph.find_modules_that_directly_import(other)


@pytest.mark.spec("S3")
def test_re_is_always_called_by_its_name() -> None:
    for folder in ("agentops", "loops", "gates"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom):
                    assert node.module != "re", file
                if isinstance(node, ast.Import):
                    assert all(name.name != "re" or not name.asname for name in node.names), file
