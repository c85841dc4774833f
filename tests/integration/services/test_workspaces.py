"""The folder of a run: a private copy, made once, that no link leads out of."""

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loops.models import Run, Workspace
from loops.workspaces import copies, folder_copy
from tests.integration.services.world import closing_connections


@pytest.fixture
def source(tmp_path, settings):
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "tool.sh").write_text("echo hi")
    (folder / "sub" / "tool.sh").chmod(0o755)
    (tmp_path / "secret").write_text("not yours")
    return folder


def run_in(world, folder):
    """Submitted before the path was what it is now."""
    run = world.submit(workspace=Workspace.objects.create(project=world.project, name="W")).run
    Workspace.objects.filter(name="W").update(path=str(folder))
    return Run.objects.get(pk=run.pk)


def test_a_task_without_a_workspace_gets_an_empty_folder(world, source):
    run = world.submit().run
    path = copies.prepare(run)
    assert not list(Path(path).iterdir())
    assert Run.objects.get(pk=run.pk).workspace_path == path


@pytest.mark.spec("J2")
def test_a_copy_is_made_once_and_found_again(world, source):
    run = run_in(world, source)
    (source / "within").symlink_to("sub/tool.sh")
    path = copies.prepare(run)
    copied = Path(path, "sub", "tool.sh")
    copied.write_text("changed by the run")
    assert copies.prepare(Run.objects.get(pk=run.pk)) == path
    assert copied.stat().st_mode & 0o111
    assert Path(path, "within").readlink() == Path("sub/tool.sh")
    assert (source / "sub" / "tool.sh").read_text() == "echo hi"
    assert copied.read_text() == "changed by the run"


@pytest.mark.spec("I7")
@pytest.mark.parametrize(
    ("links"),
    [
        {"out": "../secret"},
        {"out": "/etc"},
        {"up": "sub", "out": "up/../../secret"},
        {"sub/root": "..", "out": "sub/root/../secret"},
    ],
)
def test_links_that_lead_out_are_refused(world, source, links):
    for name, target in links.items():
        (source / name).symlink_to(target)
    with pytest.raises(folder_copy.WorkspaceUnusable, match="leads out"):
        copies.prepare(run_in(world, source))
    assert not list(copies.root().iterdir())


@pytest.mark.spec("I7")
@pytest.mark.parametrize("way", [".venv", ".venv/bin"])
def test_scripts_outside_of_the_copy_stay_as_they_are(world, source, tmp_path, way):
    """Whoever made the folder could lead the way to the scripts elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    programs = elsewhere / "bin" if way == ".venv" else elsewhere
    programs.mkdir(parents=True)
    (programs / "tell").write_text(was := f"#!{source}/.venv/bin/python3\n")
    (source / way).parent.mkdir(exist_ok=True)
    if way == ".venv/bin":
        (source / ".venv/pyvenv.cfg").touch()
    (source / way).symlink_to(elsewhere)
    with contextlib.suppress(folder_copy.WorkspaceUnusable):
        copies.prepare(run_in(world, source))
    assert (programs / "tell").read_text() == was


@pytest.mark.spec("I7")
def test_a_pipe_is_refused_at_once(world, source):
    os.mkfifo(source / "pipe")
    with pytest.raises(folder_copy.WorkspaceUnusable, match="pipe"):
        copies.prepare(run_in(world, source))


@pytest.mark.parametrize("path", ["relative/folder", "{source}/sub/tool.sh"])
def test_a_path_that_is_no_folder_is_refused(world, source, path):
    with pytest.raises(folder_copy.WorkspaceUnusable, match="workspace W"):
        copies.prepare(run_in(world, path.format(source=source)))


@pytest.mark.spec("J4")
def test_a_folder_that_is_not_here_may_be_elsewhere(world, source):
    with pytest.raises(folder_copy.WorkspaceElsewhere, match=r"/nowhere/at/all is not on worker .*workspace W"):
        copies.prepare(run_in(world, source / "nowhere/at/all"))


def test_a_workspace_may_be_used_in_place(world, source):
    run = run_in(world, source)
    Workspace.objects.filter(name="W").update(copy_for_each_run=False)
    assert copies.prepare(Run.objects.get(pk=run.pk)) == str(source)


@pytest.mark.spec("J3")
def test_two_makers_agree_on_one_folder(committed_world, source):
    run = run_in(committed_world, source)
    prepare = closing_connections(lambda _: copies.prepare(Run.objects.get(pk=run.pk)))
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(prepare, range(8)))
    assert len(paths) == 1
    assert [folder.name for folder in copies.root().iterdir()] == [str(run.pk)]


@pytest.mark.spec("X5")
def test_a_folder_that_is_too_much_to_be_copied_is_refused_with_the_figure(world, source, monkeypatch):
    monkeypatch.setattr(folder_copy, "MAX_FILES", 2)
    monkeypatch.setattr(folder_copy, "MAX_BYTES", 3 * 1024**2)
    (source / "large").write_bytes(b"x" * (3 * 1024**2 - len("echo hi")))
    copies.prepare(run_in(world, source))
    (source / "large").write_bytes(b"x" * 3 * 1024**2)
    with pytest.raises(folder_copy.WorkspaceUnusable, match="The workspace is larger than 3 MB"):
        copies.prepare(world.submit(workspace=Workspace.objects.get(path=str(source))).run)
    (source / "large").write_bytes(b"x")
    (source / "one_more").touch()
    with pytest.raises(folder_copy.WorkspaceUnusable, match="The workspace has more than 2 files"):
        copies.prepare(world.submit(workspace=Workspace.objects.get(path=str(source))).run)
