"""Trees of listings: the same files have the same name, and what differs is all that is told and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.encoding import canonical
from loops.tools.output import sha256_hex
from loops.tools.snapshot_trees import Folder, differences, loaded, of_states

pytestmark = pytest.mark.spec("O3", "X3")
PARTS = st.sampled_from(["a", "b", "a-b", "ü", "c"])
STATES = st.sampled_from(["file:644:" + "0" * 64, "file:755:" + "1" * 64, "link:a", "large:9:9", "other", "directory"])


@st.composite
def workspaces(draw: st.DrawFn) -> dict[str, str]:
    """Files and folders as a disk can hold them: what has something below it is a folder."""
    found = dict[str, str]()
    for parts, state in draw(st.lists(st.tuples(st.lists(PARTS, min_size=1, max_size=4), STATES), max_size=12)):
        above = ["/".join(parts[:at]) for at in range(1, len(parts))]
        path = "/".join(parts)
        if all(found.get(one, "directory") == "directory" for one in above) and path not in found:
            found |= dict.fromkeys(above, "directory") | {path: state}
    return found


class Kept:
    """What is stored, and which of it was read."""

    def __init__(self, *trees: Folder) -> None:
        self.bodies = {folder.name: folder.body for tree in trees for folder in tree.folders()}
        self.read = list[str]()

    def one(self, name: str) -> bytes:
        self.read.append(name)
        return self.bodies[name]

    def all(self, names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self.one(name) for name in names}


@given(workspaces())
def test_a_tree_comes_back_from_what_is_stored(states: dict[str, str]) -> None:
    tree = of_states(states)
    assert tree.states() == states
    assert loaded(tree.name, Kept(tree).all).states() == states
    assert sha256_hex(tree.body) == tree.name


@given(workspaces(), workspaces())
def test_what_differs_is_told_and_nothing_else(before: dict[str, str], after: dict[str, str]) -> None:
    old, new = of_states(before), of_states(after)
    found = list(differences(old.name, new, Kept(old).one))
    wanted = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {path: (was, now) for path, was, now in found} == {
        path: (before.get(path, ""), after.get(path, "")) for path in wanted
    }
    assert len(found) == len(wanted)
    places = [path for path, _, _ in found]
    assert all(
        places.index(path) > places.index(above) for path in places for above in places if path.startswith(f"{above}/")
    )
    assert (old.name == new.name) == (not wanted)


def test_only_folders_that_differ_are_read() -> None:
    states = {f"d{at}/e/f": "link:x" for at in range(50)}
    states |= {path.rsplit("/", depth)[0]: "directory" for path in states for depth in (1, 2)}
    old = of_states(states)
    kept = Kept(old)
    assert len(list(differences(old.name, of_states(states | {"d7/e/f": "link:y"}), kept.one))) == 1
    assert len(kept.read) == 3
    assert list(differences(old.name, of_states(states), kept.one)) == []
    assert len(kept.read) == 3, "the same name is the same tree"


@given(workspaces(), workspaces())
def test_a_list_of_paths_of_an_earlier_version_is_read(before: dict[str, str], after: dict[str, str]) -> None:
    body = canonical.encode(before)
    stored = {sha256_hex(body): body}
    assert loaded(sha256_hex(body), lambda names: {name: stored[name] for name in names}).states() == before
    found = differences(sha256_hex(body), of_states(after), stored.__getitem__)
    assert {path for path, _, _ in found} == {path for path in {*before, *after} if before.get(path) != after.get(path)}


def test_what_is_not_stored_is_said() -> None:
    old, new = of_states({"a": "directory", "a/b": "link:x"}), of_states({})
    with pytest.raises(KeyError):
        list(differences(old.name, new, {}.__getitem__))
    with pytest.raises(KeyError):
        loaded(old.name, lambda names: {})
