"""The figures that bound every tool call, the same in every project; Operations lists them (SPEC I7)."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

PROTECTED = (
    ".git/hooks",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    ".claude",
    ".agentops",
    ".agentops.toml",
)
"""Paths that steer agents or run by themselves; nobody but a person changes them, not even when they are missing."""

ON_SIGHT = (
    *(".envrc", ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".exrc", ".nvimrc", ".nvim.lua"),
    *(".hg/hgrc", ".husky", ".githooks", ".yarnrc", ".yarnrc.yml", ".npmrc", ".pnpmfile.cjs"),
    *(".Rprofile", ".irbrc", ".pryrc", ".ghci", ".gdbinit", ".lldbinit", ".dir-locals.el"),
    *("GEMINI.md", ".gemini", ".cursor", ".cursorrules", ".windsurfrules", ".clinerules", ".codex", ".aider.conf.yml"),
)
"""What programs of people, or other agents, obey as soon as somebody uses a folder, at any depth. A command that makes
one has it taken away afterwards (`docs/adr/0048`)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds. ``shown`` is what the model reads, ``kept`` what is stored of one output.

    ``snapshot``: what is kept of former files so that a change can be undone; beyond it a call is irreversible.
    """

    arguments_bytes: int = 1_000_000
    arguments_depth: int = 64
    shown_bytes: int = 16 * KIB
    kept_bytes: int = 10 * MIB
    file_bytes: int = 10 * MIB
    snapshot_file_bytes: int = 4 * MIB
    snapshot_bytes: int = 64 * MIB
    snapshot_files: int = 5_000
    workspace_bytes: int = GIB
    workspace_files: int = 100_000
    disk_reserve_bytes: int = GIB
    found_lines: int = 200
    listed_files: int = 1_000
    command_s: float = 120.0
    command_max_s: float = 1_800.0
    cpu_s: int = 600
    address_space_bytes: int = 4 * GIB
    memory_bytes: int = 2 * GIB
    largest_file_bytes: int = 512 * MIB
    processes: int = 128
    open_files: int = 1_024
    tmp_bytes: int = 256 * MIB
    protected: tuple[str, ...] = (*PROTECTED, *ON_SIGHT)
