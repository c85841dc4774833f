"""A command without namespaces: Landlock, seccomp, and a process that keeps it (SPEC I7)."""
