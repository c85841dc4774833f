"""The figures that bound every tool call: some by the project's policy, the rest the same everywhere; Operations lists
them (SPEC I7, ADR 0069)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.state.command_limits import DEFAULTS, CommandLimits

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
    "agentops.toml",
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
    What a project sets is that of a new one here; ``within`` has it as it was set. ``stated`` are paths from the top of
    the workspace that its accepted `agentops.toml` protects as well (ADR 0070).
    """

    arguments_bytes: int = 1_000_000
    arguments_depth: int = 64
    shown_bytes: int = 16 * KIB
    kept_bytes: int = DEFAULTS.command_output_mib * MIB
    file_bytes: int = 10 * MIB
    snapshot_file_bytes: int = 4 * MIB
    snapshot_bytes: int = GIB
    snapshot_files: int = 100_000
    workspace_bytes: int = DEFAULTS.workspace_mib * MIB
    workspace_files: int = DEFAULTS.workspace_files
    disk_reserve_bytes: int = GIB
    found_lines: int = 200
    listed_files: int = 1_000
    criterion_s: float = float(DEFAULTS.criterion_seconds)
    command_s: float = float(DEFAULTS.command_seconds)
    command_max_s: float = 1_800.0
    cpu_s: int = 600
    address_space_bytes: int = 4 * GIB
    memory_bytes: int = DEFAULTS.command_memory_mib * MIB
    largest_file_bytes: int = 512 * MIB
    processes: int = DEFAULTS.command_processes
    open_files: int = 1_024
    tmp_bytes: int = 256 * MIB
    protected: tuple[str, ...] = (*PROTECTED, *ON_SIGHT)
    stated: tuple[str, ...] = ()

    @property
    def longest_s(self) -> float:
        """Of any command, whoever asks for it."""
        return max(self.criterion_s, self.command_max_s)


def within(given: CommandLimits) -> Limits:
    """The figures of a project that sets these. What would be met first follows: a processor's time of a process is
    that of five processors, it may address twice the memory, and one file takes half of the disk."""
    memory, disk = given.command_memory_mib * MIB, given.workspace_mib * MIB
    longest = max(given.criterion_seconds, given.command_seconds)
    return Limits(
        kept_bytes=given.command_output_mib * MIB,
        workspace_bytes=disk,
        workspace_files=given.workspace_files,
        criterion_s=float(given.criterion_seconds),
        command_s=float(given.command_seconds),
        cpu_s=max(Limits().cpu_s, 5 * longest),
        address_space_bytes=max(Limits().address_space_bytes, 2 * memory),
        memory_bytes=memory,
        largest_file_bytes=max(Limits().largest_file_bytes, disk // 2),
        processes=given.command_processes,
    )
