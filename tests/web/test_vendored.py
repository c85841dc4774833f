"""Files of others are what they were when they were vendored, with their licence beside them."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

STATIC = Path(__file__).parents[2] / "static"
VENDOR = STATIC / "vendor"
LISTED = json.loads((VENDOR / "VENDORED.json").read_text())
OURS = [path for path in STATIC.rglob("*") if path.suffix in {".js", ".css"} and VENDOR not in path.parents]
TEMPLATES = sorted((STATIC.parent / "templates").rglob("*.html"))


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: entry["name"])
def test_vendored_files_are_unchanged(entry):
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (VENDOR / entry["name"]).iterdir()}
    assert found == entry["files"]
    assert any(name.startswith("LICENSE") for name in found)


def test_nothing_vendored_is_unlisted():
    assert {path.name for path in VENDOR.iterdir() if path.is_dir()} == {entry["name"] for entry in LISTED}


def test_pages_use_only_icons_of_the_sprite():
    sprite = Path(finders.find("vendor/lucide-static@1.62.0/sprite.svg")).read_text()
    drawn = set(re.findall(r'<symbol id="([^"]+)"', sprite))
    used = {name for path in TEMPLATES for name in re.findall(r'{% icon "([^"]+)"', path.read_text())}
    from gates.policy.kinds import GATE_KINDS
    from loops.web import formatting, notes

    used |= {icon for kind in GATE_KINDS.values() for icon in (kind.icon, kind.labels.icon)}
    used |= {icon for _, icon in formatting.STATES.values()}
    used |= set(re.findall(r'_(?:say|by)\("\w+", "([a-z-]+)"', Path(notes.__file__).read_text()))
    assert used - drawn == set()


@pytest.mark.spec("T1")
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_hold_no_inline_code(path):
    text = path.read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\sstyle=|\son\w+=|hx-on|javascript:|<style", text)


def test_nothing_is_loaded_from_elsewhere():
    for path in [*OURS, *TEMPLATES]:
        found = re.findall(r"(?:src|href|import|url\()\s*=?[\"'( ]*((?:https?:)?//[^\s\"')]+)", path.read_text())
        assert not found, path
