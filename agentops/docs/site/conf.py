"""The documentation site: Sphinx reads the Markdown files where they lie, with the links that a Git host follows too.

`make docs` builds it, strictly: a broken link and a page that stands in no list below are errors (ADR 0054).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

HERE = "agentops/docs"
FIRST = "README"
PAGES = {
    "Understand": {
        "Architecture": f"{HERE}/architecture",
        "The life of a run": f"{HERE}/life-of-a-run",
        "Reliability": f"{HERE}/reliability",
    },
    "Extend": {
        "Packages of your own": f"{HERE}/extending",
        "A tool in Python": f"{HERE}/guides/tool",
        "An agent": f"{HERE}/guides/agent",
        "An execution loop": f"{HERE}/guides/execution-loop",
        "A provider of models": f"{HERE}/guides/provider",
        "Contributing": "CONTRIBUTING",
    },
    "Topics": {
        "Termination: how runs end": f"{HERE}/termination",
        "Error classification": f"{HERE}/error-classification",
        "Loop detection": f"{HERE}/loop-detection",
        "Confidence": f"{HERE}/confidence",
        "What proved means": f"{HERE}/evidence",
        "Progress": f"{HERE}/progress",
    },
    "Operate": {
        "Operations": f"{HERE}/operations",
        "People, roles and decisions": f"{HERE}/people",
        "Commands": f"{HERE}/commands",
        "Security": "SECURITY",
        "Changelog": "CHANGELOG",
    },
    "Reference": {
        "Requirements": f"{HERE}/requirements",
        "Glossary": f"{HERE}/glossary",
        "Words on pages": f"{HERE}/words-on-pages",
        "Benchmarks": f"{HERE}/benchmarks",
        "Tests of decision 83": f"{HERE}/decision-83-tests",
    },
    "Decisions": {"Decisions (ADR)": f"{HERE}/adr/README"},
}
"""Captions and titles of pages, in the order in which a newcomer reads. A page that is not here is an error."""
BELOW = {f"{HERE}/adr/README": f"/{HERE}/adr/[0-9]*"}
"""Pages whose children are listed by a pattern."""
ANCHOR = re.compile(r'<a id="([^"]+)">')

project = "AgentOps"
root_doc = FIRST
extensions = ["myst_parser"]
include_patterns = ["*.md", f"{HERE}/*.md", f"{HERE}/guides/*.md", f"{HERE}/adr/*.md"]
exclude_patterns = [".*", "build", "dist", "loops", "gates", "static", "templates", "tests", f"{HERE}/examples"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "AgentOps"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]


def list_pages(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append the table of contents to the pages that have one: directives would stand as noise on a Git host."""
    if page == FIRST:
        source[0] += "".join(
            _toctree(f":hidden:\n:caption: {caption}", [f"{name} </{page}>" for name, page in pages.items()])
            for caption, pages in PAGES.items()
        )
    elif page in BELOW:
        source[0] += _toctree(":glob:\n:titlesonly:", [BELOW[page]])


def _toctree(options: str, pages: list[str]) -> str:
    return "\n\n```{toctree}\n" + "\n".join([options, "", *pages]) + "\n```\n"


def know_anchors(app: Sphinx, _doctree: Any) -> None:
    """Let links find places that are named by `<a id>`, as a Git host does. MyST knows headings alone."""
    page = app.env.docname
    text = Path(app.env.doc2path(page)).read_text(encoding="utf-8")
    slugs = app.env.metadata[page].setdefault("myst_slugs", {})
    for name in ANCHOR.findall(text):
        slugs.setdefault(name, (None, name, name))


def lead_to_first(app: Sphinx, failed: Exception | None) -> None:
    """Make `index.html`, which servers and people open first."""
    if not failed:
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={FIRST}.html"><title>AgentOps</title>'
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Register the above; drawings in Mermaid stay text, since drawing them needs three megabytes of script."""
    lexers["mermaid"] = TextLexer()
    app.connect("source-read", list_pages)
    app.connect("doctree-read", know_anchors)
    app.connect("build-finished", lead_to_first)
