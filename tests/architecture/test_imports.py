"""Who may import whom, where a contract of import-linter cannot say it."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from agentops import sdk

SDKS = ("anthropic", "openai", "mcp")
FRAMEWORKS = ("django", "celery", "channels", "rest_framework", "psycopg", "redis")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("agentops", "loops", "gates", include_external_packages=True, cache_dir=None)


@pytest.mark.parametrize("sdk", SDKS)
def test_each_sdk_has_one_door(graph: grimp.ImportGraph, sdk: str) -> None:
    doors = graph.find_modules_that_directly_import(sdk) if sdk in graph.modules else set()
    assert len(doors) <= 1, f"{sdk} is imported by {sorted(doors)}"
    assert all(door.startswith(("loops.llm.", "loops.tools.")) for door in doors)


@pytest.mark.spec("S3")
@pytest.mark.parametrize("part", ["answer", "client", "plain", "Ending"])
def test_our_adapters_may_be_made_of_what_those_of_packages_are(graph: grimp.ImportGraph, part: str) -> None:
    """The table of providers names our adapters: a part that knew the table could not be used by them."""
    module = getattr(sdk, part).__module__
    assert module != "loops.llm.providers"
    assert graph.find_shortest_chain(module, "loops.llm.providers") is None


@pytest.mark.spec("I1")
def test_only_the_tool_access_service_knows_tools(graph: grimp.ImportGraph) -> None:
    tools = {module for module in graph.modules if module.startswith("loops.tools.builtin.")}
    for tool in tools:
        outsiders = {
            importer
            for importer in graph.find_modules_that_directly_import(tool)
            if not importer.startswith(("loops.tools", "loops.runs.composition"))
        }
        assert not outsiders, f"{tool} is imported by {sorted(outsiders)}"


def test_the_driver_knows_no_framework(graph: grimp.ImportGraph) -> None:
    for framework in FRAMEWORKS:
        if framework in graph.modules:
            chain = graph.find_shortest_chain("loops.driver", framework, as_packages=True)
            assert chain is None, " -> ".join(chain)


@pytest.mark.spec("V1")
@pytest.mark.parametrize("module", ["agentops.asgi", "agentops.urls"])
def test_web_processes_load_no_sdk(module: str) -> None:
    """An SDK costs seconds of start-up and a hundred megabytes; only workers pay."""
    loads = f"import django; django.setup(); import {module}, sys; print([m for m in {SDKS!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr[-2000:]


LOADED = "print([m for m in ('loops.admin', 'unfold.admin', 'rest_framework.views') if m in sys.modules])"


@pytest.mark.spec("V1")
@pytest.mark.parametrize(
    ("does", "loaded"),
    [
        ("from agentops.celery import app; app.loader.import_default_modules(); import loops.runs.drive", False),
        ("from django.core import checks; checks.run_checks(tags=['admin'])", True),
    ],
    ids=["a worker", "checks"],
)
def test_pages_are_loaded_where_they_are_served_or_checked(does: str, loaded: bool) -> None:
    """They cost a worker, the clock and each command a third of a second."""
    done = subprocess.run(
        [sys.executable, "-c", f"import django, sys; django.setup(); {does}; {LOADED}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("unfold.admin" in done.stdout) is loaded, done.stdout + done.stderr[-2000:]
    assert loaded or done.stdout.strip() == "[]"


def test_long_files_say_why_they_are_one() -> None:
    """A file that grows past this usually holds a second idea with a name of its own; one that does not says so."""
    long = [file for file in _product() if _lines(file) > 400]
    assert [str(file) for file in long if "one file" not in (ast.get_docstring(_tree(file)) or "").lower()] == []


def test_functions_fit_on_a_screen() -> None:
    """One in a hundred may be longer than 40 lines."""
    lengths = [
        (node.end_lineno or 0) - node.lineno + 1
        for file in _product()
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert sum(length > 40 for length in lengths) <= len(lengths) / 100
    assert max(lengths) <= 60


def _product() -> list[Path]:
    root = Path(__file__).parents[2]
    files = [file for folder in ("agentops", "loops", "gates") for file in (root / folder).rglob("*.py")]
    return [file for file in files if "migrations" not in file.parts]


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def test_no_module_imports_itself_by_way_of_others(graph: grimp.ImportGraph) -> None:
    """Imports inside of functions count as well."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"c"}, "c": {"a"}}).prepare()
