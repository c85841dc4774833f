"""A command in namespaces of its own, by bubblewrap (SPEC I7)."""
